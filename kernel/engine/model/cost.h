// What a model costs: parameters, total and active, and floating-point operations.
//
// Counted are multiply-adds, two operations each:
//   body      each weight matrix of a block once a token; of experts the share that a row runs; what the router needs to route
//   attention 2·d for every pair of a row and a row it sees (scores, then mixing)
//   read-out  vocabulary·d a token (language), classes·d a sequence (classification)
// Embeddings, norms, softmax and activations are left out. Training is three times the forward pass: backward is two passes more.
#ifndef MOIETY_KERNEL_ENGINE_MODEL_COST_H_
#define MOIETY_KERNEL_ENGINE_MODEL_COST_H_

#include <cstdint>
#include <vector>

#include "kernel/engine/model/gpt.h"

namespace moiety::engine {

/// A model as far as its costs go: one that exists, or one that the dry pass knows of.
struct PlannedModel {
  Architecture architecture;
  std::vector<std::int64_t> experts;                          ///< by layer; 0: dense, −1: found when the stage runs
  std::vector<double> neurons;                                ///< of the feed-forward that a row runs, by layer
  std::vector<double> routing_of_token, routing_of_sequence;  ///< multiply-adds of the router, by layer
  double total = 0, active = 0;                               ///< parameters
};

/// How much was computed.
struct Work {
  double tokens = 0;
  double sequences = 0;
  double pairs = 0;               ///< of a row and a row it sees: Σ n(n+1)/2
  double language_read_outs = 0;  ///< tokens that had a loss over the vocabulary
  double class_read_outs = 0;

  void add(const Spans& spans);
  void add_sequences(double count, double length);
};

/// Facts of a model that exists.
PlannedModel facts_of(const Gpt& model);
/// Facts of a dense model by its architecture.
PlannedModel dense_facts(const Architecture& architecture);

/// What a layer's experts and their router cost: `neurons` of one expert, `by_sequence` as the router's rows() say.
void set_experts(PlannedModel& model, std::int64_t layer, std::int64_t experts, std::int64_t neurons, const RouterCost& cost,
                 bool by_sequence);

double forward_flops(const PlannedModel& model, const Work& work);
/// Bytes that training with `rows` tokens at once needs, roughly: parameters four times (value, gradient, two moments) and
/// activations.
double training_memory(const PlannedModel& model, double rows);
inline double training_flops(const PlannedModel& model, const Work& work) { return 3 * forward_flops(model, work); }

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_MODEL_COST_H_
