// construct: experts made from the feed-forwards and attentions of one dense model or of several, or a fresh model with experts.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "kernel/engine/data/clustering.h"
#include "kernel/engine/data/corpus.h"
#include "kernel/engine/model/dense_expert.h"
#include "kernel/engine/model/dense_roles.h"
#include "kernel/engine/stages/continuation.h"
#include "kernel/engine/stages/options.h"
#include "kernel/engine/stages/read_models.h"
#include "kernel/engine/stages/recording.h"
#include "kernel/engine/stages/site_making.h"
#include "kernel/engine/stages/stage_model.h"
#include "kernel/engine/stages/verbs.h"

namespace moiety::engine {
namespace {

MOIETY_CHOICE(Rest, average, first);

constexpr const char* has_experts_already = "the model read has experts already; whole models are dense";

struct ConstructOptions {
  Layers layers, attention_layers;
  std::shared_ptr<ExpertConstructor> experts, attention_experts, whole_experts;
  std::shared_ptr<Router> router, attention_router, whole_router;
  double capacity = 0, attention_capacity = 0;
  Rest rest;
  std::int64_t windows, dimensions;
  TrainingSplit split;
};

constexpr const char* capacity_doc =
    "an expert takes at most this times an even share of the rows of a pass, the rest is dropped and counted; 0: as many as come";

constexpr Parameter parameters[] = {
    param<&ConstructOptions::layers>("feed_forward.layers", "all",
                                     "which layers get experts: all, last 2, every 2, or numbers from 0"),
    required<&ConstructOptions::experts>("feed_forward.experts", "how the experts are made"),
    required<&ConstructOptions::router>("feed_forward.router", "which experts a row runs"),
    param<&ConstructOptions::capacity>("feed_forward.capacity", 0.0, capacity_doc).at_least(0),
    param<&ConstructOptions::attention_layers>("attention.layers", "all", "which layers get attention experts"),
    required<&ConstructOptions::attention_experts>("attention.experts", "how the attention experts are made"),
    required<&ConstructOptions::attention_router>("attention.router", "which attention experts a row runs"),
    param<&ConstructOptions::attention_capacity>("attention.capacity", 0.0, capacity_doc).at_least(0),
    required<&ConstructOptions::whole_experts>("whole.experts", "how many models there are, and what they start as"),
    required<&ConstructOptions::whole_router>("whole.router", "which of them a sequence runs, by its label"),
    param<&ConstructOptions::rest>("rest", Rest::average,
                                   "of several models: what becomes of all that is no expert: their mean, or the first one's"),
    param<&ConstructOptions::windows>("calibrate.windows", 1024,
                                      "windows that components look at before they start, if they ask for it")
        .range(1, 1000000)
        .in("windows"),
    param<&ConstructOptions::split>("calibrate.split", TrainingSplit::train, "which part of the corpus they are of"),
    param<&ConstructOptions::dimensions>("calibrate.dimensions", 64,
                                         "to which points made of them are projected; 0: they are not")
        .at_least(0)
        .in("numbers")};

constexpr Output results[] = {
    metric("clusters", "experts", 0, "of the first new site: what its router or constructor divided it into"),
    metric("total_parameters", "parameters", 0, "of the model"),
    metric("active_parameters", "parameters", 0, "that one token uses")};

/// One table of the stage: a place, its layers, its text.
struct Wanted {
  Place place;
  std::string path;
  std::vector<std::int64_t> layers;
  double capacity;
};
std::vector<Wanted> wanted_places(const Job& job, const ConstructOptions& options, std::int64_t layers,
                                  ConfigProblems& problems) {
  std::vector<Wanted> list;
  const auto add = [&](Place place, const Layers& rule, double capacity) {
    const std::string path = name_of(place);
    if (!job.config.contains(path) || !job.config[path].is_object()) return;
    list.push_back({place, path, layers_of(rule, layers, path + ".layers", problems), capacity});
  };
  add(Place::attention, options.attention_layers, options.attention_capacity);
  add(Place::feed_forward, options.layers, options.capacity);
  const bool others = !list.empty();
  if (job.config.contains("whole") && job.config["whole"].is_object()) {
    list.push_back({Place::whole, "whole", {0}, 0});
    if (others) problems.push_back({"whole", "the entire model is the expert: no further table goes with it"});
    if (job.all_inputs("from").size() > 1)
      problems.push_back({"whole", "copies one model, or starts fresh; `evaluate` measures several models as one"});
  }
  if (list.empty()) problems.push_back({"", "what gets experts? write a table `feed_forward`, `attention` or `whole`"});
  return list;
}

/// Reads all models of `from`. They must be alike where there are several.
Result<std::vector<ModelFile>> read_sources(const Job& job) {
  std::vector<ModelFile> files;
  for (const JobInput* input : job.all_inputs("from")) {
    auto file = read_model_file(input->path);
    if (!file) return pass(file);
    if (!files.empty()) {
      if (file->architecture.to_json() != files.front().architecture.to_json())
        return fail(ErrorKind::failed, fmt::format("model {} of `from` has another shape than the first one", files.size() + 1));
      if (file->manifest.value("corpus", "") != files.front().manifest.value("corpus", ""))
        return fail(ErrorKind::failed,
                    fmt::format("model {} of `from` was trained with another tokenizer or corpus", files.size() + 1));
    }
    files.push_back(std::move(*file));
  }
  for (const ModelFile& file : files)
    if (files.size() > 1 && !file.manifest.value("sites", nlohmann::json::array()).empty())
      return fail(ErrorKind::failed, "a model of `from` has experts already; several models are put together dense");
  return files;
}

/// What enters the places of the model as it is.
Result<Recording> record(StageContext& context, const ModelFile& file, const std::vector<Recording::Where>& places,
                         const ConstructOptions& options, Cost& cost) {
  auto corpus = TrainingCorpus::open(context.job.corpus);
  if (!corpus) return pass(corpus);
  if (corpus->facts().vocabulary != file.architecture.vocabulary)
    return fail(ErrorKind::failed, fmt::format("the model reads {} tokens, the corpus has {}", file.architecture.vocabulary,
                                               corpus->facts().vocabulary));
  const auto model = model_from(file, context.components);
  if (!model) return pass(model);
  Recording recording(**model, corpus->streams(options.split), places, options.windows, options.dimensions,
                      [&](std::int64_t done, std::int64_t all) {
                        context.protocol.progress("windows", static_cast<double>(done), static_cast<double>(all), 0, "calibrate");
                        return context.stop.load() == 0;
                      });
  Work work;
  work.add_sequences(static_cast<double>(recording.windows()), static_cast<double>(file.architecture.context));
  cost.tokens = work.tokens;
  cost.flops = forward_flops(facts_of(**model), work);
  return recording;
}

/// The mean of a tensor over the models, in double, or the first one's.
at::Tensor rest_of(const std::vector<ModelFile>& files, const std::string& name, Rest rest) {
  const at::Tensor& first = files.front().tensors.at(name);
  if (files.size() == 1 || rest == Rest::first) return first;
  at::Tensor sum = at::zeros(first.sizes(), at::kDouble);
  for (const ModelFile& file : files) sum += file.tensors.at(name).to(at::kDouble);
  return (sum / static_cast<double>(files.size())).to(first.scalar_type());
}

Sources sources_of(const std::vector<ModelFile>& files, Place place, std::int64_t layer) {
  Sources sources;
  for (const ModelFile& file : files) sources.push_back(dense_roles(file.tensors, place, layer));
  return sources;
}

/// Plans every new site; a router that finds experts does so first. False when a signal asked for an end.
bool plan_sites(StageContext& context, const std::vector<ModelFile>& files, std::vector<SiteParts>& parts,
                const std::optional<Recording>& recording) {
  const Random cluster = Random(static_cast<std::uint64_t>(context.job.seeds.cluster)).fork("cluster");
  double done = 0;
  for (SiteParts& made : parts) {
    const Site& site = made.site;
    Random stream = cluster.fork(static_cast<std::uint64_t>(site.layer));
    if (site.place == Place::attention) stream = stream.fork("attention");
    if (made.finds_experts()) {
      if (!recording) throw ComponentFailure(made.router.name, "needs", "finds experts, but asks for no activations");
      made.site.experts = call("find_experts", made.router, [&] {
        return made.router.as<Router>().find_experts(made.site, recording->of(site.place, site.layer), stream.fork("experts"));
      });
      if (made.site.experts < 1) throw ComponentFailure(made.router.name, "find_experts", "found none");
    }
    const bool asked = call("needs", made.constructor, [&] { return made.constructor.component->needs().activations; });
    call("plan", made.constructor, [&] {
      made.constructor.as<ExpertConstructor>().plan(sources_of(files, site.place, site.layer), made.site,
                                                    asked ? &recording->of(site.place, site.layer) : nullptr, stream);
    });
    context.protocol.progress("sites", ++done, static_cast<double>(parts.size()) + 1, 0, "construct");
    if (context.stop.load() != 0) return false;
  }
  return true;
}

/// The tensors of one model under the names that they have in each of several whole ones.
TensorMap copies_of(const TensorMap& model, std::int64_t experts) {
  TensorMap copies;
  for (std::int64_t i = 0; i < experts; ++i)
    for (const auto& [name, tensor] : model) copies.emplace(expert_prefix(i) + name, tensor);
  return copies;
}

/// All tensors of the model: of its new sites what was expanded, of the rest what the sources say; routers and fresh models start
/// as declared.
Status move_numbers(Gpt& model, const std::vector<ModelFile>& files, const std::vector<const ExpertSite*>& fresh, Rest rest,
                    const Random& init) {
  model.initialise(init);
  TensorMap target, kept;
  for (const auto& entry : model.parameters().entries()) target.emplace(entry.name, *entry.tensor);
  for (const ExpertSite* site : fresh) {
    const Site& place = site->site();
    fill_site(*site,
              call("expand", site->constructor(),
                   [&] {
                     return site->constructor().as<ExpertConstructor>().expand(sources_of(files, place.place, place.layer),
                                                                               place);
                   }),
              target);
  }
  if (files.empty()) return {};
  for (const auto& [name, tensor] : files.front().tensors) kept.emplace(name, rest_of(files, name, rest));
  for (const ExpertSite* site : fresh) {
    if (site->site().place == Place::whole) kept = copies_of(kept, site->site().experts);
    for (const auto& name : dense_names(site->site().place, site->site().layer)) kept.erase(name);
    for (const auto& [name, tensor] : target)
      if (name.rfind("all_sites.", 0) == 0 || is_of_experts(name, site->site().place, site->site().layer)) kept[name] = tensor;
  }
  return load_tensors(model, kept);
}

Result<StageOutcome> run(StageContext& context) {
  const Job& job = context.job;
  auto read = stage_options<ConstructOptions>(parameters, job, context.components);
  if (auto status = read.status(); !status) return pass(status);
  auto files = read_sources(job);
  if (!files) return pass(files);
  Architecture architecture;
  Sites sites;
  if (files->empty()) {
    auto fresh = fresh_architecture(job);
    if (!fresh) return pass(fresh);
    architecture = *fresh;
  } else {
    architecture = files->front().architecture;
    auto made = make_sites(files->front().manifest, architecture, context.components, files->front().state);
    if (!made) return pass(made);
    sites = std::move(*made);
  }
  if (find_site(sites, Place::whole, 0) != nullptr) return fail(ErrorKind::failed, whole_models);
  StageOutcome outcome;
  std::vector<SiteParts> parts;
  std::vector<Recording::Where> places;
  bool looks = false;
  for (const Wanted& wanted : wanted_places(job, read.values, architecture.layers, read.problems)) {
    for (const std::int64_t layer : wanted.layers) {
      if (wanted.place == Place::whole && !sites.empty()) return fail(ErrorKind::failed, has_experts_already);
      if (find_site(sites, wanted.place, layer) != nullptr)
        return fail(ErrorKind::failed, fmt::format("the {} of layer {} has experts already", name_of(wanted.place), layer));
      auto made =
          make_parts(context.components, job.config.at(wanted.path), wanted.path, site_of(architecture, wanted.place, layer),
                     static_cast<std::int64_t>(files->size()), wanted.capacity, read.problems);
      if (auto status = read.status(); !made || !status)
        return status ? fail(ErrorKind::failed, "a component cannot be made") : tl::unexpected<Error>(status.error());
      looks = looks || made->needs_activations();
      places.emplace_back(wanted.place, layer);
      parts.push_back(std::move(*made));
    }
  }
  if (auto status = read.status(); !status) return pass(status);
  std::optional<Recording> recording;
  if (looks) {
    if (files->empty()) return fail(ErrorKind::failed, "a component looks at the inputs of its site, but the model starts fresh");
    auto recorded = record(context, files->front(), places, read.values, outcome.cost);
    if (!recorded) return pass(recorded);
    recording = std::move(*recorded);
  }
  if ((recording && !recording->complete()) || !plan_sites(context, *files, parts, recording)) {
    outcome.ending = Ending::interrupted;
    return outcome;
  }
  std::vector<const ExpertSite*> fresh;
  for (SiteParts& made : parts) {
    sites.push_back(std::make_unique<ExpertSite>(made.site, std::move(made.constructor), std::move(made.router), made.capacity));
    fresh.push_back(sites.back().get());
  }
  const Random init = Random(static_cast<std::uint64_t>(job.seeds.init)).fork("init");
  outcome.model = std::make_unique<Gpt>(architecture, std::move(sites));
  Gpt& model = *outcome.model;
  if (auto status = move_numbers(model, *files, fresh, read.values.rest, init); !status) return pass(status);
  for (auto& site : model.sites()) {
    if (std::find(fresh.begin(), fresh.end(), site.get()) == fresh.end()) continue;
    const at::NoGradGuard no_gradient;
    const bool asked = call("needs", site->router(), [&] { return site->router().component->needs().activations; });
    Random stream = init.fork("prepare").fork(static_cast<std::uint64_t>(site->site().layer));
    if (site->site().place == Place::attention) stream = stream.fork("attention");
    site->prepare(asked ? &recording->of(site->site().place, site->site().layer) : nullptr, stream);
  }
  const PlannedModel facts = facts_of(model);
  outcome.cost.total_parameters = facts.total;
  outcome.cost.active_parameters = facts.active;
  outcome.results = {
      {"clusters", fresh.front()->site().experts}, {"total_parameters", facts.total}, {"active_parameters", facts.active}};
  // What routers ask for about windows goes with the model: whoever trains or measures it needs the labels.
  if (!files->empty()) {
    auto inherited = inherited_files(files->front().path);
    if (!inherited) return pass(inherited);
    outcome.files = std::move(*inherited);
  }
  for (const JobInput& input : job.inputs) {
    if (input.name.find(".router.") == std::string::npos || !Clustering::is_in(input.path)) continue;
    const auto clustering = Clustering::open(input.path);
    if (!clustering) return pass(clustering);
    for (auto& [name, content] : clustering->files()) outcome.files[name] = content;
  }
  if (files->empty()) return outcome;
  const auto& manifest = files->front().manifest;
  if (manifest.contains("position")) outcome.position = manifest["position"];
  if (files->size() == 1) {
    if (auto status = pass_training_state_on(files->front(), model, fresh, outcome); !status) return pass(status);
  }
  return outcome;
}

CheckResult check(const CheckContext& context) {
  CheckResult result;
  auto read = stage_options<ConstructOptions>(parameters, context.job, context.components);
  result.problems = read.problems;
  if (!result.problems.empty()) return result;
  const std::int64_t sources = static_cast<std::int64_t>(context.job.all_inputs("from").size());
  auto model = planned_starting_model(context, vocabulary_of(context.job), {}, result.problems);
  if (!model) return result;
  const PlannedModel before = *model;  // what is recorded of, if a component asks for it
  std::int64_t recorded = 0;
  if (before.whole.experts != 0) {
    result.problems.push_back({"from", whole_models});
    return result;
  }
  for (const Wanted& wanted : wanted_places(context.job, read.values, model->architecture.layers, result.problems)) {
    for (const std::int64_t layer : wanted.layers) {
      if (wanted.place == Place::whole && before.has_experts()) {
        result.problems.push_back({"whole", has_experts_already});
        return result;
      }
      if (before.site(wanted.place, layer).experts != 0) {
        result.problems.push_back(
            {wanted.path + ".layers", fmt::format("layer {} of the model has experts there already", layer)});
        return result;
      }
      auto made = make_parts(context.components, context.job.config.at(wanted.path), wanted.path,
                             site_of(model->architecture, wanted.place, layer), sources, wanted.capacity, result.problems);
      if (!made) return result;
      if (made->needs_activations()) ++recorded;
      if (made->needs_activations() && sources == 0) {
        result.problems.push_back({wanted.path, "a component looks at the inputs of its site, but the model starts fresh"});
        return result;
      }
      add_planned_site(*model, std::move(*made));
    }
  }
  if (!result.problems.empty()) return result;
  result.cost = {0, 0, model->total, model->active, training_memory(*model, 0)};
  if (recorded > 0) {
    Work work;
    work.add_sequences(static_cast<double>(read.values.windows), static_cast<double>(model->architecture.context));
    result.cost.tokens = work.tokens;
    result.cost.flops = forward_flops(before, work);
    result.cost.memory += 4 * static_cast<double>(recorded) * work.tokens * static_cast<double>(model->architecture.width);
  }
  result.model = std::move(model);
  return result;
}

}  // namespace

Verb construct_verb() {
  Verb verb{"construct",
            "makes a model with experts from dense ones, or a fresh one",
            false,
            "model",
            {{"from", "model", false, true}},
            true,
            false,
            {"init", "cluster"},
            parameters,
            {},
            results,
            &run,
            &check};
  verb.tables = {{"feed_forward", "experts in place of feed-forwards"},
                 {"attention", "experts in place of attentions"},
                 {"whole", "the entire model as an expert: several of one shape, one for each label"}};
  return verb;
}

}  // namespace moiety::engine
