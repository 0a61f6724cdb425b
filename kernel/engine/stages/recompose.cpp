// recompose: a model whose experts are parts of dense layers, as a dense model again.
#include "kernel/engine/model/dense_expert.h"
#include "kernel/engine/stages/options.h"
#include "kernel/engine/stages/read_models.h"
#include "kernel/engine/stages/stage_model.h"
#include "kernel/engine/stages/verbs.h"

namespace moiety::engine {
namespace {

Result<StageOutcome> run(StageContext& context) {
  const JobInput* from = context.job.input("from");
  if (from == nullptr) return fail(ErrorKind::usage, "recompose needs an input `from`");
  const auto model = model_of(*from, context.components);
  if (!model) return pass(model);
  auto dense = recomposed(**model);
  if (!dense) return pass(dense);
  StageOutcome outcome;
  outcome.model = std::move(*dense);
  const PlannedModel facts = facts_of(*outcome.model);
  outcome.cost.total_parameters = facts.total;
  outcome.cost.active_parameters = facts.active;
  if (auto status = hand_on(from->path, outcome); !status) return pass(status);
  return outcome;
}

CheckResult check(const CheckContext& context) {
  CheckResult result;
  unknown_keys(nullptr, 0, context.job.config, "", common_keys(), result.problems);
  if (context.job.input("from") == nullptr) result.problems.push_back({"from", "a model with experts is needed"});
  if (!result.problems.empty()) return result;
  const auto model = planned_starting_model(context, 0, {}, result.problems);
  if (!model) return result;
  if (!model->has_experts()) result.problems.push_back({"from", no_experts});
  if (model->whole.experts != 0) result.problems.push_back({"from", whole_models});
  if (!result.problems.empty()) return result;
  PlannedModel dense = dense_facts(model->architecture);
  result.cost = {0, 0, dense.total, dense.active, training_memory(*model, 0)};
  result.model = std::move(dense);
  return result;
}

}  // namespace

Verb recompose_verb() {
  return {"recompose",
          "puts experts that are parts of dense layers together again",
          false,
          "model",
          {{"from", "model", true}},
          false,
          false,
          {},
          {},
          {},
          {},
          &run,
          &check};
}

}  // namespace moiety::engine
