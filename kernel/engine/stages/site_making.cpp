#include "kernel/engine/stages/site_making.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <set>

namespace moiety::engine {

std::vector<std::int64_t> layers_of(const Layers& wanted, std::int64_t layers, const std::string& path,
                                    ConfigProblems& problems) {
  std::set<std::int64_t> chosen;
  long long n = 0;
  if (wanted.rule == "all") {
    for (std::int64_t i = 0; i < layers; ++i) chosen.insert(i);
  } else if (std::sscanf(wanted.rule.c_str(), "last %lld", &n) == 1) {
    if (n < 1 || n > layers) problems.push_back({path, fmt::format("`{}` of a model with {} layers", wanted.rule, layers)});
    for (std::int64_t i = std::max<std::int64_t>(0, layers - n); i < layers; ++i) chosen.insert(i);
  } else if (std::sscanf(wanted.rule.c_str(), "every %lld", &n) == 1) {
    if (n < 1 || n > layers) problems.push_back({path, fmt::format("`{}` of a model with {} layers", wanted.rule, layers)});
    for (std::int64_t i = n - 1; n > 0 && i < layers; i += n) chosen.insert(i);
  } else if (!wanted.rule.empty()) {
    problems.push_back({path, "`" + wanted.rule + "` is no rule; there are all, last N, every N"});
  }
  for (const std::int64_t layer : wanted.list) {
    if (layer < 0 || layer >= layers)
      problems.push_back({path, fmt::format("there is no layer {}; they are 0 … {}", layer, layers - 1)});
    else if (!chosen.insert(layer).second)
      problems.push_back({path, fmt::format("layer {} is named twice", layer)});
  }
  if (chosen.empty() && problems.empty()) problems.push_back({path, "names no layer"});
  return {chosen.begin(), chosen.end()};
}

bool SiteParts::finds_experts() const {
  return call("finds_experts", router, [&] { return router.as<Router>().finds_experts(); });
}

namespace {

/// Whether the router says one expert for each sequence without looking at it.
bool names_labels(const SiteParts& parts) {
  const Needs needs = call("needs", parts.router, [&] { return parts.router.component->needs(); });
  const auto& router = parts.router.as<Router>();
  return (needs.domain_labels || needs.cluster_labels) && !needs.activations && !parts.finds_experts() &&
         call("rows", parts.router, [&] { return router.rows(); }) == Rows::sequence &&
         call("cost", parts.router, [&] { return router.cost(parts.site).experts_per_row; }) == 1;
}

}  // namespace

bool SiteParts::needs_activations() const {
  return call("needs", constructor, [&] { return constructor.component->needs().activations; }) ||
         call("needs", router, [&] { return router.component->needs().activations; });
}

std::optional<SiteParts> make_parts(const ComponentSet& components, const nlohmann::json& table, const std::string& path,
                                    Site site, std::int64_t sources, double capacity, ConfigProblems& problems) {
  const std::string of_experts = path + ".experts", of_router = path + ".router";
  if (!table.contains("experts") || !table.contains("router")) {
    problems.push_back({path, "needs `experts` and `router`"});
    return std::nullopt;
  }
  auto constructor = components.make("expert_constructor", table.at("experts"), of_experts, problems);
  auto router = components.make("router", table.at("router"), of_router, problems);
  if (!constructor || !router) return std::nullopt;
  SiteParts made{site, std::move(*constructor), std::move(*router), capacity};
  const bool found_later = made.finds_experts();
  if (site.place == Place::whole && !names_labels(made)) {
    problems.push_back(
        {of_router, fmt::format("{} does not route sequences by their labels alone, and before a whole model there is "
                                "nothing else to see",
                                made.router.name)});
    return std::nullopt;
  }
  Facts facts;
  facts.site = &made.site;
  facts.sources = sources;
  const std::size_t before = problems.size();
  check_all(made.constructor, facts, of_experts, problems);
  if (problems.size() != before) return std::nullopt;
  made.site.experts = call("count", made.constructor, [&] { return made.constructor.as<ExpertConstructor>().count(facts); });
  if (found_later && made.site.experts != 0)
    problems.push_back({of_experts, fmt::format("gives {} experts, but {} finds their number itself: leave it out",
                                                made.site.experts, made.router.name)});
  else if (!found_later && made.site.experts < 1)
    problems.push_back({of_experts, fmt::format("how many? {} does not find their number", made.router.name)});
  if (problems.size() != before) return std::nullopt;
  check_all(made.constructor, facts, of_experts, problems);
  check_all(made.router, facts, of_router, problems);
  if (problems.size() != before) return std::nullopt;
  const double run = call("cost", made.router, [&] { return made.router.as<Router>().cost(made.site).experts_per_row; });
  if (made.site.experts > 0 && run > static_cast<double>(made.site.experts)) {
    problems.push_back(
        {of_router, fmt::format("{} runs {} experts a row, but there are {}", made.router.name, run, made.site.experts)});
    return std::nullopt;
  }
  return made;
}

void add_planned_site(PlannedModel& model, SiteParts parts) {
  // Where the router finds the experts: a row costs what it costs with one; what they add to the size is known after the stage.
  const bool found_later = parts.site.experts == 0;
  if (found_later) parts.site.experts = 1;
  const std::string prefix = site_prefix(parts.site.place, parts.site.layer);
  const double replaced = dense_parameters(parts.site);
  ParameterStore store;
  ExpertSite site(parts.site, std::move(parts.constructor), std::move(parts.router), parts.capacity);
  site.bind(store, prefix);
  set_experts(model, site, store, found_later);
  if (found_later) return;
  if (parts.site.place == Place::whole) {
    double of_router = 0;
    for (const auto& entry : store.entries()) of_router += static_cast<double>(entry.size());
    model.active += of_router;
    model.total = model.total * static_cast<double>(parts.site.experts) + of_router;
    return;
  }
  double total = 0;
  for (const auto& entry : store.entries())
    // A tensor for all sites is counted with the first of them.
    if (!entry.spec.shared || model.shared_tensors.insert(entry.name).second) total += static_cast<double>(entry.size());
  model.total += total - replaced;
  model.active += total - replaced - idle_parameters(site, store, prefix);
}

std::vector<std::string> fill_site(const ExpertSite& site, const TensorMap& values, const TensorMap& target) {
  const std::string prefix = site_prefix(site.site().place, site.site().layer);
  const char* name = site.constructor().name;
  const at::NoGradGuard no_gradient;
  std::vector<std::string> written;
  for (const auto& [role, value] : values) {
    const auto to = target.find(prefix + role) != target.end() ? target.find(prefix + role) : target.find("all_sites." + role);
    if (to == target.end()) throw ComponentFailure(name, "expand", "gives `" + role + "`, which was not declared");
    if (!value.defined() || value.sizes() != to->second.sizes())
      throw ComponentFailure(name, "expand", "gives `" + role + "` in another shape than it was declared");
    if (!at::isfinite(value).all().item<bool>())
      throw ComponentFailure(name, "expand", "gives a `" + role + "` that is not finite");
    to->second.copy_(value);
    written.push_back(to->first);
  }
  return written;
}

}  // namespace moiety::engine
