// A feed-forward or an attention made of experts: the bank that a constructor declared, and the router that says which of them a
// row runs.
#ifndef MOIETY_KERNEL_ENGINE_LAYERS_EXPERT_SITE_H_
#define MOIETY_KERNEL_ENGINE_LAYERS_EXPERT_SITE_H_

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernel/engine/layers/forward_context.h"
#include "kernel/engine/layers/parameters.h"
#include "kernel/engine/layers/role_bank.h"
#include "kernel/engine/layers/spans.h"
#include "kernel/engine/plugins/component_set.h"
#include "moiety/expert_constructor.h"
#include "moiety/router.h"

namespace moiety::engine {

class ExpertSite {
 public:
  /// `site.experts` is the number of experts. `capacity`: an expert takes at most capacity · k · R / N of R rows in a pass,
  /// rounded up, k being what a row runs; 0: as many as come.
  ExpertSite(Site site, Instance constructor, Instance router, double capacity = 0);

  /// Declares the bank's and the router's tensors under `prefix` ("layer1.feed_forward."). Once.
  void bind(ParameterStore& store, const std::string& prefix);
  /// x [rows, d] → [rows, d]. `spans` says which rows are one sequence; losses of the router go into the context, weighted.
  at::Tensor forward(const at::Tensor& x, const Spans& spans, ForwardContext& context) const;

  /// Of a whole model: the expert of each sequence, [B] int64.
  at::Tensor expert_of_sequences(const Spans& spans, ForwardContext& context) const;

  void prepare(const Activations* activations, const Random& random);  ///< the router of a new site
  /// Hands the router what it observed in the training passes since the last step.
  void after_step(std::int64_t step);
  /// Means over the training passes since they were taken last: what the router reports, and `dropped`, the share of places that
  /// a capacity emptied.
  std::map<std::string, double> take_metrics();
  /// How often each expert was chosen in the training passes, by a row or by a sequence; empty where routers choose nobody
  /// (soft).
  std::vector<std::int64_t>& usage() { return usage_; }
  void state(Archive& archive);                      ///< of both components and their parts
  bool has_losses() const;                           ///< the router adds to what is trained on
  bool by_sequence() const { return by_sequence_; }  ///< the router must see whole sequences
  RouterCost cost() const;

  const Site& site() const { return site_; }
  const RoleBank& bank() const { return *bank_; }
  double capacity() const { return capacity_; }
  const Instance& constructor() const { return constructor_; }
  const Instance& router() const { return router_; }

 private:
  struct Sum {
    double total = 0, count = 0;
  };
  Routing route(const at::Tensor& x, const Spans& spans, ForwardContext& context) const;
  void note_losses(const Routing& routing, const at::Tensor& x, ForwardContext& context) const;
  at::Tensor feed_forward_of(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& chosen,
                             const std::vector<std::int64_t>* used, bool plain) const;
  at::Tensor attention_of(const at::Tensor& x, const Spans& spans, const at::Tensor& gate, const at::Tensor& of_sequences,
                          const std::vector<std::int64_t>* used, bool plain) const;

  Site site_;
  double capacity_ = 0;
  bool by_sequence_ = false, wants_sequences_ = false;
  Needs needs_;
  std::unique_ptr<RoleBank> bank_;  // before the router, which reads it as long as it lives
  Instance constructor_, router_;
  mutable std::vector<at::Tensor> chosen_, observed_;  // of the training passes since the last step, in their order
  mutable std::map<std::string, Sum> metrics_;
  mutable std::vector<std::int64_t> usage_;
};

/// The sites of a model.
using Sites = std::vector<std::unique_ptr<ExpertSite>>;
ExpertSite* find_site(const Sites& sites, Place place, std::int64_t layer);
/// "layer1.feed_forward."; of whole models "whole.", where their router's tensors are.
std::string site_prefix(Place place, std::int64_t layer);
/// Whether a tensor of this name is what a site declared: all below its prefix but the norm's, which belongs to the block.
bool is_of_experts(const std::string& name, Place place, std::int64_t layer);
const char* name_of(Place place);
std::optional<Place> place_of(const std::string& name);
/// "expert3.", before the names of the tensors of a whole model that is an expert.
std::string expert_prefix(std::int64_t expert);
/// The name that a tensor has in a model of its own: "expert3.final_norm.gain" → "final_norm.gain".
std::string name_in_model(const std::string& name);
/// Whether a tensor of this name belongs to what makes classes or tokens of the last hidden rows, and to nothing else.
bool is_read_out(const std::string& name);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_LAYERS_EXPERT_SITE_H_
