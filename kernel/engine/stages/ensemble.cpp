#include "kernel/engine/stages/ensemble.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace moiety::engine {

Result<Ensemble> Ensemble::open(const std::vector<const JobInput*>& inputs, const ComponentSet& components) {
  Ensemble all;
  for (const JobInput* input : inputs) {
    auto model = model_of(*input, components);
    if (!model) return pass(model);
    all.models_.emplace_back(std::move(*model));
    all.artifacts_.push_back(input->path);
    const Architecture &first = all.models_.front()->architecture(), &one = all.models_.back()->architecture();
    if (one.context != first.context || one.vocabulary != first.vocabulary || one.classes != first.classes ||
        one.longest_item() != first.longest_item())
      return fail(
          ErrorKind::failed,
          fmt::format("the models of an ensemble must read and tell the same: {} tokens of context, {} words and {} classes "
                      "against {}, {} and {}",
                      one.context, one.vocabulary, one.classes, first.context, first.vocabulary, first.classes));
  }
  if (all.models_.empty()) return fail(ErrorKind::usage, "there is no model to measure");
  return all;
}

Result<TokenLosses> Ensemble::token_losses(const LabelledText& text, const ComponentSet& components) const {
  std::vector<TokenLosses> each;
  for (std::size_t m = 0; m < models_.size(); ++m) {
    auto labels = window_labels(*models_[m], artifacts_[m], components, text, false);
    if (!labels) return pass(labels);
    const auto kept = std::make_shared<const WindowLabels>(std::move(*labels));
    each.push_back([model = models_[m], kept](const Batch& batch, const at::Tensor& targets, const FixedWindows& windows) {
      return token_losses_of(*model, *kept)(batch, targets, windows);
    });
  }
  if (each.size() == 1) return each.front();
  return TokenLosses([each](const Batch& batch, const at::Tensor& targets, const FixedWindows& windows) {
    std::vector<at::Tensor> logs;
    for (const auto& one : each) logs.push_back(one(batch, targets, windows).to(at::kDouble).neg());
    const at::Tensor mean = at::logsumexp(at::stack(logs), 0) - std::log(static_cast<double>(each.size()));
    return mean.neg().to(at::kFloat).contiguous();
  });
}

std::vector<ItemResult> Ensemble::classify(const Items& items, const std::vector<std::int64_t>& chosen,
                                           const std::function<bool(std::int64_t done)>& between) const {
  const ClassLogits logs = [this](const ItemBatch& packed) {
    std::vector<at::Tensor> each;
    for (const auto& model : models_) {
      ForwardContext forward;
      each.push_back(at::log_softmax(model->class_logits(packed.batch, forward), 1));
    }
    if (each.size() == 1) return each.front();
    return at::logsumexp(at::stack(each), 0) - std::log(static_cast<double>(each.size()));
  };
  return engine::classify(logs, longest_item(), items, chosen, between);
}

void Ensemble::add_cost(const Work& work, Cost& cost) const {
  cost.tokens += work.tokens;
  cost.total_parameters = cost.active_parameters = 0;
  for (const auto& model : models_) {
    const PlannedModel facts = facts_of(*model);
    cost.flops += forward_flops(facts, work);
    cost.total_parameters += facts.total;
    cost.active_parameters += facts.active;
  }
}

}  // namespace moiety::engine
