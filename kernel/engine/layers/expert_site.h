// A feed-forward made of experts: the bank that a constructor declared, and the router that says which of them a row runs.
#ifndef MOIETY_KERNEL_ENGINE_LAYERS_EXPERT_SITE_H_
#define MOIETY_KERNEL_ENGINE_LAYERS_EXPERT_SITE_H_

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernel/engine/layers/forward_context.h"
#include "kernel/engine/layers/parameters.h"
#include "kernel/engine/layers/spans.h"
#include "kernel/engine/plugins/component_set.h"
#include "moiety/expert_constructor.h"
#include "moiety/router.h"

namespace moiety::engine {

/// What a Routing means for each row and expert: [rows, N] factors, or undefined for the plain sum. Differentiable in the
/// weights. Throws ComponentFailure, naming `router`, for wrong shapes or types, an expert that is not there, or weights that are
/// not finite although `hidden` is.
at::Tensor gate_of(const Routing& routing, std::int64_t rows, std::int64_t experts, const at::Tensor& hidden, const char* router);

class ExpertSite {
 public:
  /// `site.experts` is the number of experts.
  ExpertSite(Site site, Instance constructor, Instance router);

  /// Declares the bank's and the router's tensors under `prefix` ("layer1.feed_forward."). Once.
  void bind(ParameterStore& store, const std::string& prefix);
  /// x [rows, d] → [rows, d]. `spans` says which rows are one sequence; losses of the router go into the context, weighted.
  at::Tensor forward(const at::Tensor& x, const Spans& spans, ForwardContext& context) const;

  void prepare(const Activations* activations, const Random& random);  ///< the router of a new site
  /// Hands the router what it observed in the training passes since the last step.
  void after_step(std::int64_t step);
  void state(Archive& archive);                      ///< of both components and their parts
  bool has_losses() const;                           ///< the router adds to what is trained on
  bool by_sequence() const { return by_sequence_; }  ///< the router must see whole sequences
  RouterCost cost() const;

  const Site& site() const { return site_; }
  std::int64_t neurons() const { return neurons_; }  ///< of one expert; after bind()
  const Instance& constructor() const { return constructor_; }
  const Instance& router() const { return router_; }

 private:
  class RoleBank;
  Site site_;
  std::int64_t neurons_ = 0;
  bool by_sequence_ = false;
  std::shared_ptr<RoleBank> bank_;  // before the router, which reads it as long as it lives
  Instance constructor_, router_;
  mutable std::vector<at::Tensor> chosen_, observed_;  // of the training passes since the last step, in their order
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_LAYERS_EXPERT_SITE_H_
