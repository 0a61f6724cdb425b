// What a model costs: parameters, total and active, and floating-point operations.
//
// Counted are multiply-adds, two operations each:
//   body      each weight matrix of a block once a token; of experts the share that a row runs (of attention experts that are
//   routed
//             token by token all keys and values, which later rows may ask for); what the router needs to route; roles that are
//             derived once for each expert that a micro-batch may run
//   attention 2·d for every pair of a row and a row it sees (scores, then mixing), for each expert that the row runs
//   read-out  vocabulary·d a token (language), classes·d a sequence (classification)
// Embeddings, norms, softmax and activations are left out, and the products of low-rank adapters (a matrix once a micro-batch).
// Training is three times the forward pass: backward is two passes more; of the read-out alone where nothing before it trains.
// Frozen layers below one that trains are counted as if they trained.
#ifndef MOIETY_KERNEL_ENGINE_MODEL_COST_H_
#define MOIETY_KERNEL_ENGINE_MODEL_COST_H_

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "kernel/engine/model/gpt.h"

namespace moiety::engine {

/// A model as far as its costs go: one that exists, or one that the dry pass knows of.
struct PlannedModel {
  struct SiteCost {
    std::int64_t experts = 0;     ///< 0: dense, −1: found when the stage runs
    double weights_of_token = 0;  ///< multiply-adds of the matrices that a row runs
    double attended = 1;          ///< attention: how many experts look at each pair
    double routing_of_token = 0, routing_of_sequence = 0;
    double deriving = 0;    ///< multiply-adds to make one expert's roles
    double parameters = 0;  ///< that the site declared, its router's included, those for all sites not
    BankShape bank;
  };
  Architecture architecture;
  std::vector<SiteCost> attention, feed_forward;       ///< by layer
  SiteCost whole;                                      ///< of whole models: of them, a token runs one
  double total = 0, active = 0;                        ///< parameters
  bool body_trains = true;                             ///< something before the read-out does
  std::set<std::string> shared_tensors;                ///< names counted already
  std::int64_t trained_steps = 0, schedule_steps = 0;  ///< of the training that left it: where `continues` goes on
  double tokens_per_step = 0;

  bool has_experts() const {
    return any_site([](const SiteCost& one) { return one.experts != 0; });
  }
  /// Some number of experts is found when the stage runs: until then its costs are those of one.
  bool found_later() const {
    return any_site([](const SiteCost& one) { return one.experts < 0; });
  }
  bool any_site(bool (*is)(const SiteCost&)) const {
    return is(whole) || std::any_of(attention.begin(), attention.end(), is) ||
           std::any_of(feed_forward.begin(), feed_forward.end(), is);
  }
  SiteCost& site(Place place, std::int64_t layer) {
    if (place == Place::whole) return whole;
    return (place == Place::attention ? attention : feed_forward)[static_cast<std::size_t>(layer)];
  }
  const SiteCost& site(Place place, std::int64_t layer) const {
    if (place == Place::whole) return whole;
    return (place == Place::attention ? attention : feed_forward)[static_cast<std::size_t>(layer)];
  }
};

/// How much was computed.
struct Work {
  double tokens = 0;
  double sequences = 0;
  double micro_batches = 0;
  double pairs = 0;               ///< of a row and a row it sees: Σ n(n+1)/2
  double language_read_outs = 0;  ///< tokens that had a loss over the vocabulary
  double class_read_outs = 0;

  void add(const Spans& spans);
  void add_sequences(double count, double length);
};

/// Facts of a model that exists.
PlannedModel facts_of(const Gpt& model);
/// Numbers of a dense layer; `matrices_only`: those that a token is multiplied by.
double dense_parameters(const Site& site, bool matrices_only = false);
/// Facts of a dense model by its architecture.
PlannedModel dense_facts(const Architecture& architecture);

/// What a place's experts and their router cost; `store` has what the site declared. `found_later`: their number is known when
/// the stage has run; `site` then has one.
void set_experts(PlannedModel& model, const ExpertSite& site, const ParameterStore& store, bool found_later);
/// Parameters of a bound site's bank that one row does not run.
double idle_parameters(const ExpertSite& site, const ParameterStore& store, const std::string& prefix);

double forward_flops(const PlannedModel& model, const Work& work);
/// Bytes that training with `rows` tokens at once needs, roughly: parameters four times (value, gradient, two moments) and
/// activations.
double training_memory(const PlannedModel& model, double rows);
double training_flops(const PlannedModel& model, const Work& work);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_MODEL_COST_H_
