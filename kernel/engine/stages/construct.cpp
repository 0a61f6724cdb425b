// construct: experts made from a dense model's feed-forwards.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "kernel/engine/data/corpus.h"
#include "kernel/engine/stages/options.h"
#include "kernel/engine/stages/recording.h"
#include "kernel/engine/stages/stage_model.h"
#include "kernel/engine/stages/verbs.h"

namespace moiety::engine {
namespace {

struct ConstructOptions {
  Layers layers;
  std::shared_ptr<ExpertConstructor> experts;
  std::shared_ptr<Router> router;
  std::int64_t windows, dimensions;
};

constexpr Parameter parameters[] = {
    param<&ConstructOptions::layers>("feed_forward.layers", "all",
                                     "which layers get experts: all, last 2, every 2, or numbers from 0"),
    required<&ConstructOptions::experts>("feed_forward.experts", "how the experts are made"),
    required<&ConstructOptions::router>("feed_forward.router", "which experts a row runs"),
    param<&ConstructOptions::windows>("calibrate.windows", 1024,
                                      "training windows that components look at before they start, if they ask for it")
        .range(1, 1000000)
        .in("windows"),
    param<&ConstructOptions::dimensions>("calibrate.dimensions", 64,
                                         "to which points made of them are projected; 0: they are not")
        .at_least(0)
        .in("numbers")};

constexpr Output results[] = {metric("experts", "experts", 0, "of each site"),
                              metric("total_parameters", "parameters", 0, "of the model"),
                              metric("active_parameters", "parameters", 0, "that one token uses")};

/// The layers of a model that the rule means, in order, or a problem.
std::vector<std::int64_t> layers_of(const Layers& wanted, std::int64_t layers, ConfigProblems& problems) {
  const std::string path = "feed_forward.layers";
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

Site site_of(const Architecture& a, std::int64_t layer) {
  Site site;
  site.layer = layer;
  site.layers = a.layers;
  site.width = a.width;
  site.inner = a.inner;
  return site;
}

/// A site's own two components. The number of experts is asked for, and both are asked whether they agree to it; it stays 0 where
/// the router finds it.
struct Made {
  Site site;
  Instance constructor, router;

  bool needs_activations() const {
    return call("needs", constructor, [&] { return constructor.component->needs().activations; }) ||
           call("needs", router, [&] { return router.component->needs().activations; });
  }
  bool router_finds_experts() const {
    return call("finds_experts", router, [&] { return router.as<Router>().finds_experts(); });
  }
};
std::optional<Made> make(const ComponentSet& components, const nlohmann::json& config, Site site, ConfigProblems& problems) {
  const auto& table = config.at("feed_forward");
  auto constructor = components.make("expert_constructor", table.at("experts"), "feed_forward.experts", problems);
  auto router = components.make("router", table.at("router"), "feed_forward.router", problems);
  if (!constructor || !router) return std::nullopt;
  Made made{site, std::move(*constructor), std::move(*router)};
  const bool found_later = made.router_finds_experts();
  Facts facts;
  facts.site = &made.site;
  facts.sources = 1;
  const std::size_t before = problems.size();
  check_all(made.constructor, facts, "feed_forward.experts", problems);
  if (problems.size() != before) return std::nullopt;
  made.site.experts = call("count", made.constructor, [&] { return made.constructor.as<ExpertConstructor>().count(facts); });
  if (found_later && made.site.experts != 0)
    problems.push_back({"feed_forward.experts", fmt::format("gives {} experts, but {} finds their number itself: leave it out",
                                                            made.site.experts, made.router.name)});
  else if (!found_later && made.site.experts < 1)
    problems.push_back({"feed_forward.experts", fmt::format("how many? {} does not find their number", made.router.name)});
  if (problems.size() != before) return std::nullopt;
  check_all(made.constructor, facts, "feed_forward.experts", problems);
  check_all(made.router, facts, "feed_forward.router", problems);
  if (problems.size() != before) return std::nullopt;
  return made;
}

constexpr const char* roles[] = {"in", "in_bias", "out", "out_bias"};

Sources dense_tensors(const ModelFile& file, const std::string& prefix) {
  TensorMap tensors;
  for (const char* role : roles) {
    const auto found = file.tensors.find(prefix + role);
    if (found != file.tensors.end()) tensors.emplace(role, found->second);
  }
  return {tensors};
}

/// What expand() gave, into the declared tensors of the site.
void fill(Gpt& model, const ExpertSite& site, const TensorMap& values) {
  const std::string prefix = model.site_prefix(site.site().layer);
  const char* name = site.constructor().name;
  const at::NoGradGuard no_gradient;
  for (const auto& [role, value] : values)
    if (model.parameters().find(prefix + role) == nullptr)
      throw ComponentFailure(name, "expand", "gives `" + role + "`, which was not declared");
  for (const char* role : roles) {
    const auto* entry = model.parameters().find(prefix + role);
    if (entry == nullptr) continue;
    const auto value = values.find(role);
    if (value == values.end()) throw ComponentFailure(name, "expand", std::string("does not give `") + role + "`");
    if (!value->second.defined() || value->second.sizes() != entry->tensor->sizes())
      throw ComponentFailure(name, "expand", std::string("gives `") + role + "` in another shape than it was declared");
    if (!at::isfinite(value->second).all().item<bool>())
      throw ComponentFailure(name, "expand", std::string("gives a `") + role + "` that is not finite");
    entry->tensor->copy_(value->second);
  }
}

/// What enters the feed-forwards of the model as it is.
Result<Recording> record(StageContext& context, const ModelFile& file, const std::vector<std::int64_t>& layers,
                         const ConstructOptions& options, Cost& cost) {
  auto corpus = TrainingCorpus::open(context.job.corpus);
  if (!corpus) return pass(corpus);
  if (corpus->facts().vocabulary != file.architecture.vocabulary)
    return fail(ErrorKind::failed, fmt::format("the model reads {} tokens, the corpus has {}", file.architecture.vocabulary,
                                               corpus->facts().vocabulary));
  auto sites = make_sites(file.manifest, file.architecture, context.components, file.state);
  if (!sites) return pass(sites);
  Gpt model(file.architecture, std::move(*sites));
  if (auto status = load_tensors(model, file.tensors); !status) return pass(status);
  Recording recording(model, corpus->streams(TrainingSplit::train), layers, options.windows, options.dimensions,
                      [&](std::int64_t done, std::int64_t all) {
                        context.protocol.progress("windows", static_cast<double>(done), static_cast<double>(all), 0, "calibrate");
                        return context.stop.load() == 0;
                      });
  Work work;
  work.add_sequences(static_cast<double>(recording.windows()), static_cast<double>(file.architecture.context));
  cost.tokens = work.tokens;
  cost.flops = forward_flops(facts_of(model), work);
  return recording;
}

Result<StageOutcome> run(StageContext& context) {
  const Job& job = context.job;
  auto read = stage_options<ConstructOptions>(parameters, job, context.components);
  if (auto status = read.status(); !status) return pass(status);
  const JobInput* from = job.input("from");
  if (from == nullptr) return fail(ErrorKind::usage, "construct needs an input `from`");
  auto file = read_model_file(from->path);
  if (!file) return pass(file);
  const Architecture& architecture = file->architecture;
  const std::vector<std::int64_t> layers = layers_of(read.values.layers, architecture.layers, read.problems);
  if (auto status = read.status(); !status) return pass(status);
  auto sites = make_sites(file->manifest, architecture, context.components, file->state);
  if (!sites) return pass(sites);

  const Random cluster = Random(static_cast<std::uint64_t>(job.seeds.cluster)).fork("cluster");
  const Random init = Random(static_cast<std::uint64_t>(job.seeds.init)).fork("init");
  StageOutcome outcome;
  std::map<std::int64_t, Sources> sources;
  std::map<std::int64_t, Made> parts;
  bool looks = false;
  for (const std::int64_t layer : layers) {
    if ((*sites)[static_cast<std::size_t>(layer)])
      return fail(ErrorKind::failed, fmt::format("layer {} of the model has experts already", layer));
    auto made = make(context.components, job.config, site_of(architecture, layer), read.problems);
    if (auto status = read.status(); !made || !status)
      return status ? fail(ErrorKind::failed, "a component cannot be made") : tl::unexpected<Error>(status.error());
    looks = looks || made->needs_activations();
    parts.emplace(layer, std::move(*made));
  }
  std::optional<Recording> recording;
  if (looks) {
    auto recorded = record(context, *file, layers, read.values, outcome.cost);
    if (!recorded) return pass(recorded);
    recording = std::move(*recorded);
    if (!recording->complete()) {
      outcome.ending = Ending::interrupted;
      return outcome;
    }
  }
  double done = 0;
  for (const std::int64_t layer : layers) {
    Made& made = parts.at(layer);
    const Random stream = cluster.fork(static_cast<std::uint64_t>(layer));
    if (made.router_finds_experts()) {
      if (!recording) throw ComponentFailure(made.router.name, "needs", "finds experts, but asks for no activations");
      made.site.experts = call("find_experts", made.router, [&] {
        return made.router.as<Router>().find_experts(made.site, recording->of(layer), stream.fork("experts"));
      });
      if (made.site.experts < 1) throw ComponentFailure(made.router.name, "find_experts", "found none");
    }
    sources[layer] = dense_tensors(*file, fmt::format("layer{}.feed_forward.", layer));
    const bool asked = call("needs", made.constructor, [&] { return made.constructor.component->needs().activations; });
    call("plan", made.constructor, [&] {
      made.constructor.as<ExpertConstructor>().plan(sources[layer], made.site, asked ? &recording->of(layer) : nullptr, stream);
    });
    (*sites)[static_cast<std::size_t>(layer)] =
        std::make_unique<ExpertSite>(made.site, std::move(made.constructor), std::move(made.router));
    context.protocol.progress("sites", ++done, static_cast<double>(layers.size()) + 1, 0, "construct");
    if (context.stop.load() != 0) {
      outcome.ending = Ending::interrupted;
      return outcome;
    }
  }

  outcome.model = std::make_unique<Gpt>(architecture, std::move(*sites));
  Gpt& model = *outcome.model;
  TensorMap kept = file->tensors;
  std::map<std::string, at::Tensor> fresh;
  for (const std::int64_t layer : layers) {
    const std::string prefix = model.site_prefix(layer);
    for (const char* role : roles) kept.erase(prefix + role);
    const ExpertSite& site = *model.sites()[static_cast<std::size_t>(layer)];
    fill(model, site, call("expand", site.constructor(), [&] {
           return site.constructor().as<ExpertConstructor>().expand(sources[layer], site.site());
         }));
    for (const auto& entry : model.parameters().entries()) {
      if (entry.name.rfind(prefix + "router.", 0) == 0) model.parameters().initialise(entry, init);
      if (entry.name.rfind(prefix, 0) == 0 && entry.name.rfind(prefix + "norm.", 0) != 0) kept[entry.name] = *entry.tensor;
    }
  }
  if (auto status = load_tensors(model, kept); !status) return pass(status);
  for (const std::int64_t layer : layers) {
    const at::NoGradGuard no_gradient;
    ExpertSite& site = *model.sites()[static_cast<std::size_t>(layer)];
    const bool asked = call("needs", site.router(), [&] { return site.router().component->needs().activations; });
    site.prepare(asked ? &recording->of(layer) : nullptr, init.fork("prepare").fork(static_cast<std::uint64_t>(layer)));
  }
  const PlannedModel facts = facts_of(model);
  outcome.cost.total_parameters = facts.total;
  outcome.cost.active_parameters = facts.active;
  outcome.results = {{"experts", model.sites()[static_cast<std::size_t>(layers.front())]->site().experts},
                     {"total_parameters", facts.total},
                     {"active_parameters", facts.active}};
  if (file->manifest.contains("position")) outcome.position = file->manifest["position"];
  return outcome;
}

CheckResult check(const CheckContext& context) {
  CheckResult result;
  auto read = stage_options<ConstructOptions>(parameters, context.job, context.components);
  result.problems = read.problems;
  if (context.job.input("from") == nullptr) result.problems.push_back({"from", "a model to construct from is needed"});
  if (!result.problems.empty()) return result;
  auto model = planned_starting_model(context, 0, {}, result.problems);
  if (!model) return result;
  const PlannedModel dense = *model;  // what is recorded of, if a component asks for it
  std::int64_t layers = 0;
  bool recorded = false;
  for (const std::int64_t layer : layers_of(read.values.layers, model->architecture.layers, result.problems)) {
    const auto i = static_cast<std::size_t>(layer);
    if (model->experts[i] != 0) {
      result.problems.push_back({"feed_forward.layers", fmt::format("layer {} of the model has experts already", layer)});
      return result;
    }
    auto made = make(context.components, context.job.config, site_of(model->architecture, layer), result.problems);
    if (!made) return result;
    const RouterCost cost = call("cost", made->router, [&] { return made->router.as<Router>().cost(made->site); });
    if (made->site.experts > 0 && cost.experts_per_row > static_cast<double>(made->site.experts)) {
      result.problems.push_back(
          {"feed_forward.router", fmt::format("{} runs {} experts a row, but there are {}", made->router.name,
                                              cost.experts_per_row, made->site.experts)});
      return result;
    }
    ++layers;
    recorded = recorded || made->needs_activations();
    // Where the router finds the experts: a row costs what it costs with one; what they add to the size is known after the stage.
    Site site = made->site;
    const bool found_later = site.experts == 0;
    if (found_later) site.experts = 1;
    // Sizes are told by declaring into a store that makes no tensors.
    ParameterStore store;
    ExpertSite counted(site, std::move(made->constructor), std::move(made->router));
    counted.bind(store, "");
    set_experts(*model, layer, found_later ? -1 : site.experts, counted.neurons(), cost, counted.by_sequence());
    if (found_later) continue;
    const auto d = static_cast<double>(site.width), f = static_cast<double>(site.inner);
    const double replaced = 2 * d * f + f + d, total = static_cast<double>(store.total());
    double idle = 0;
    for (const auto& entry : store.entries())
      if (entry.name.rfind("router.", 0) != 0 && entry.spec.shape[0] == site.experts) idle += static_cast<double>(entry.size());
    model->total += total - replaced;
    model->active += total - replaced - idle * (1 - cost.experts_per_row / static_cast<double>(site.experts));
  }
  result.cost = {0, 0, model->total, model->active, training_memory(*model, 0)};
  if (recorded) {
    Work work;
    work.add_sequences(static_cast<double>(read.values.windows), static_cast<double>(model->architecture.context));
    result.cost.tokens = work.tokens;
    result.cost.flops = forward_flops(dense, work);
    result.cost.memory += 4 * static_cast<double>(layers) * work.tokens * static_cast<double>(model->architecture.width);
  }
  result.model = std::move(model);
  return result;
}

}  // namespace

Verb construct_verb() {
  return {"construct",
          "makes experts from a dense model",
          false,
          "model",
          {{"from", "model", true}},
          true,
          false,
          {"init", "cluster"},
          parameters,
          std::size(parameters),
          nullptr,
          0,
          results,
          std::size(results),
          &run,
          &check};
}

}  // namespace moiety::engine
