// prune: the experts of a model that were used most, all of them active from then on. Qiu et al., EMoE, NAACL 2024, discussion of
// pruning before and after tuning.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "kernel/base/files.h"
#include "kernel/engine/model/dense_roles.h"
#include "kernel/engine/stages/options.h"
#include "kernel/engine/stages/read_models.h"
#include "kernel/engine/stages/stage_model.h"
#include "kernel/engine/stages/training_loop.h"
#include "kernel/engine/stages/verbs.h"

namespace moiety::engine {
namespace {

struct PruneOptions {
  std::int64_t keep;
  std::shared_ptr<ExpertConstructor> experts;
  std::shared_ptr<Router> router;
};

constexpr Parameter parameters[] = {
    required<&PruneOptions::keep>("keep", "experts of each site that stay").range(1, 100000).in("experts"),
    param<&PruneOptions::experts>("experts", "kept", "what declares the experts that stay"),
    param<&PruneOptions::router>("router", "all", "which of them a row runs")};

constexpr const char* of_a_bank = "the experts are made of a bank that they share; `extract` takes one of them out";

/// How often each expert was chosen in the stage that counted, by site.
Result<nlohmann::json> usage_in(const std::string& artifact) {
  const auto bytes = read_file(artifact + "/" + usage_file);
  if (!bytes)
    return fail(ErrorKind::failed, "usage: that stage counted no experts",
                "name a stage that trained a model with experts of which routers choose some");
  const auto usage = nlohmann::json::parse(*bytes, nullptr, false);
  if (!usage.is_object()) return fail(ErrorKind::failed, "usage: " + artifact + "/" + usage_file + " is damaged");
  return usage;
}

/// The `keep` most used ones in ascending order; of equally used ones the first.
Result<std::vector<std::int64_t>> most_used(const nlohmann::json& usage, const ExpertSite& site, std::int64_t keep) {
  const std::string name = site_prefix(site.site().place, site.site().layer);
  const auto counts = usage.value(name, std::vector<std::int64_t>{});
  const std::int64_t experts = site.site().experts;
  if (static_cast<std::int64_t>(counts.size()) != experts)
    return fail(ErrorKind::failed, fmt::format("usage: that stage counted {} experts at {}, the model has {}", counts.size(),
                                               name.substr(0, name.size() - 1), experts));
  if (keep > experts) return fail(ErrorKind::usage, fmt::format("keep: {} experts cannot stay of {}", keep, experts));
  std::vector<std::int64_t> order(counts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return counts[static_cast<std::size_t>(a)] > counts[static_cast<std::size_t>(b)];
  });
  order.resize(static_cast<std::size_t>(keep));
  std::sort(order.begin(), order.end());
  return order;
}

Result<StageOutcome> run(StageContext& context) {
  const Job& job = context.job;
  const at::NoGradGuard no_gradient;
  auto read = stage_options<PruneOptions>(parameters, job, context.components);
  if (auto status = read.status(); !status) return pass(status);
  const JobInput *from = job.input("from"), *counted = job.input("usage");
  if (from == nullptr || counted == nullptr) return fail(ErrorKind::usage, "prune needs inputs `from` and `usage`");
  const auto model = model_of(*from, context.components);
  if (!model) return pass(model);
  if ((*model)->sites().empty()) return fail(ErrorKind::failed, "the model read has no experts");
  const auto usage = usage_in(counted->path);
  if (!usage) return pass(usage);

  TensorMap tensors;
  for (const auto& entry : (*model)->parameters().entries()) tensors.emplace(entry.name, *entry.tensor);
  Sites sites;
  for (const auto& site : (*model)->sites()) {
    if (site->bank().derives()) return fail(ErrorKind::usage, of_a_bank);
    const auto stay = most_used(*usage, *site, read.values.keep);
    if (!stay) return pass(stay);
    const std::string prefix = site_prefix(site->site().place, site->site().layer);
    erase_experts(tensors, site->site().place, site->site().layer);
    for (const auto& rule : roles_of(site->site()))
      if (const at::Tensor value = site->bank().maybe(rule.role, &*stay); value.defined())
        tensors[prefix + rule.role] = value.contiguous();
    const char* output_bias = site->site().place == Place::attention ? "o_bias" : "out_bias";
    nlohmann::json experts = job.config.at("experts");
    experts["neurons"] = site->bank().neurons();
    experts["shared_bias"] = site->bank().first_dimension(output_bias) == 1 && read.values.keep > 1;
    ConfigProblems problems;
    auto constructor = context.components.make("expert_constructor", experts, "experts", problems);
    auto router = context.components.make("router", job.config.at("router"), "router", problems);
    if (!problems.empty()) return fail(ErrorKind::usage, problems.front().path + ": " + problems.front().message);
    Site place = site->site();
    place.experts = read.values.keep;
    sites.push_back(std::make_unique<ExpertSite>(place, std::move(*constructor), std::move(*router)));
  }
  StageOutcome outcome;
  outcome.model = std::make_unique<Gpt>((*model)->architecture(), std::move(sites));
  if (auto status = load_tensors(*outcome.model, tensors); !status) return pass(status);
  const PlannedModel facts = facts_of(*outcome.model);
  outcome.cost.total_parameters = facts.total;
  outcome.cost.active_parameters = facts.active;
  auto inherited = inherited_files(from->path);
  if (!inherited) return pass(inherited);
  outcome.files = std::move(*inherited);
  return outcome;
}

CheckResult check(const CheckContext& context) {
  CheckResult result;
  const auto read = stage_options<PruneOptions>(parameters, context.job, context.components);
  result.problems = read.problems;
  for (const char* input : {"from", "usage"})
    if (context.job.input(input) == nullptr) result.problems.push_back({input, "a stage must be named"});
  if (!result.problems.empty()) return result;
  auto model = planned_starting_model(context, 0, {}, result.problems);
  if (!model) return result;
  bool any = false;
  for (const Place place : {Place::attention, Place::feed_forward}) {
    for (std::int64_t layer = 0; layer < model->architecture.layers; ++layer) {
      PlannedModel::SiteCost& site = model->site(place, layer);
      if (site.experts == 0) continue;
      any = true;
      if (site.experts > 0 && read.values.keep > site.experts) {
        result.problems.push_back({"keep", fmt::format("{} experts cannot stay of {}", read.values.keep, site.experts)});
        return result;
      }
      if (site.deriving > 0) {
        result.problems.push_back({"from", of_a_bank});
        return result;
      }
      if (site.experts < 0) continue;  // their number is found when the stage runs
      const auto gone = static_cast<double>(site.experts - read.values.keep), stay = static_cast<double>(read.values.keep);
      model->total -= gone * site.parameters_of_expert + site.router_parameters;
      site.experts = read.values.keep;
      site.weights_of_token = stay * site.weights_of_expert;
      site.attended = stay;
      site.routing_of_token = site.routing_of_sequence = site.router_parameters = 0;
    }
  }
  model->active = model->total;
  if (!any) result.problems.push_back({"from", "the model read has no experts"});
  result.cost = {0, 0, model->total, model->active, training_memory(*model, 0)};
  result.model = std::move(*model);
  return result;
}

}  // namespace

Verb prune_verb() {
  return {"prune",
          "keeps the experts that were used most, all of them active",
          false,
          "model",
          {{"from", "model", true}, {"usage", "model", true}},
          false,
          false,
          {},
          parameters,
          {},
          {},
          &run,
          &check};
}

}  // namespace moiety::engine
