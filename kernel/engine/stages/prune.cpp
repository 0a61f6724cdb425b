// prune: the experts of a model that were used most, all of them active from then on. Qiu et al., EMoE, NAACL 2024, discussion of
// pruning before and after tuning.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "kernel/base/files.h"
#include "kernel/base/hash.h"
#include "kernel/engine/model/dense_expert.h"
#include "kernel/engine/model/dense_roles.h"
#include "kernel/engine/stages/options.h"
#include "kernel/engine/stages/read_models.h"
#include "kernel/engine/stages/site_making.h"
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
  const auto manifest = read_manifest(artifact);
  if (!manifest) return pass(manifest);
  const auto& files = (*manifest)["files"];
  if (!files.contains(usage_file))
    return fail(ErrorKind::failed, "usage: that stage counted no experts",
                "name a stage that trained a model with experts of which routers choose some");
  const auto bytes = read_file(artifact + "/" + usage_file);
  if (!bytes || files[usage_file].value("sha256", "") != sha256(*bytes))
    return fail(ErrorKind::failed, artifact + "/" + usage_file + " is damaged",
                "remove the folder " + artifact + ", then run the recipe again");
  return nlohmann::json::parse(*bytes);
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

/// A site of the experts that stay, told what they look like.
Result<SiteParts> kept_parts(const ComponentSet& components, const Job& job, Site site, const BankShape& bank,
                             std::int64_t keep) {
  nlohmann::json experts = job.config.at("experts");
  experts["neurons"] = bank.neurons;
  experts["shared"] = keep > 1 ? bank.shared : std::vector<std::string>{};
  experts["absent"] = bank.absent;
  ConfigProblems problems;
  auto constructor = components.make("expert_constructor", experts, "experts", problems);
  auto router = components.make("router", job.config.at("router"), "router", problems);
  if (!problems.empty()) return fail(ErrorKind::usage, problems.front().path + ": " + problems.front().message);
  SiteParts parts;
  parts.site = site;
  parts.site.experts = keep;
  parts.constructor = std::move(*constructor);
  parts.router = std::move(*router);
  return parts;
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
  if ((*model)->sites().empty()) return fail(ErrorKind::failed, no_experts);
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
    auto parts = kept_parts(context.components, job, site->site(), site->bank().shape(), read.values.keep);
    if (!parts) return pass(parts);
    sites.push_back(std::make_unique<ExpertSite>(parts->site, std::move(parts->constructor), std::move(parts->router)));
  }
  StageOutcome outcome;
  outcome.model = std::make_unique<Gpt>((*model)->architecture(), std::move(sites));
  if (auto status = load_tensors(*outcome.model, tensors); !status) return pass(status);
  const PlannedModel facts = facts_of(*outcome.model);
  outcome.cost.total_parameters = facts.total;
  outcome.cost.active_parameters = facts.active;
  if (auto status = hand_on(from->path, outcome); !status) return pass(status);
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
  const std::int64_t keep = read.values.keep;
  if (!model->has_experts()) result.problems.push_back({"from", no_experts});
  if (model->whole.experts != 0) result.problems.push_back({"from", whole_models});
  for (const Place place : {Place::attention, Place::feed_forward}) {
    for (std::int64_t layer = 0; layer < model->architecture.layers && result.problems.empty(); ++layer) {
      const PlannedModel::SiteCost before = model->site(place, layer);
      if (before.experts <= 0) continue;  // dense, or their number is found when the stage runs
      if (before.deriving > 0) result.problems.push_back({"from", of_a_bank});
      if (keep > before.experts)
        result.problems.push_back({"keep", fmt::format("{} experts cannot stay of {}", keep, before.experts)});
      if (!result.problems.empty()) break;
      auto parts = kept_parts(context.components, context.job, site_of(model->architecture, place, layer), before.bank, keep);
      if (!parts) {
        result.problems.push_back({"experts", parts.error().message});
        break;
      }
      // As if the place were dense again; that is what a planned site takes the place of.
      model->total += dense_parameters(parts->site) - before.parameters;
      add_planned_site(*model, std::move(*parts));
    }
  }
  if (!result.problems.empty()) return result;
  model->active = model->total;
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
