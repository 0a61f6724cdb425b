#include "kernel/engine/stages/stage_model.h"

#include <fmt/format.h>

#include "kernel/engine/data/corpus.h"
#include "kernel/engine/stages/continuation.h"

namespace moiety::engine {
namespace {

Result<ModelOptions> model_options(const Job& job) {
  if (!job.model.is_object()) return fail(ErrorKind::usage, "the stage has neither an input `from` nor a [model]");
  ConfigProblems problems;
  const auto options = read_options<ModelOptions>(model_parameters, job.model, "model", nullptr, problems);
  if (!problems.empty()) return fail(ErrorKind::usage, problems.front().path + ": " + problems.front().message);
  return options;
}

}  // namespace

Result<StartingModel> starting_model(const StageContext& context, std::int64_t vocabulary, const Head& head) {
  const Job& job = context.job;
  const Random init = Random(static_cast<std::uint64_t>(job.seeds.init)).fork("init");
  StartingModel start;
  ModelFile file;
  const JobInput* from = job.input("from");
  if (from != nullptr) {
    auto read = read_model_file(from->path);
    if (!read) return pass(read);
    file = std::move(*read);
    start.manifest = file.manifest;
  } else {
    const auto options = model_options(job);
    if (!options) return pass(options);
    auto architecture = architecture_of(*options, vocabulary);
    if (!architecture) return pass(architecture);
    file.architecture = *architecture;
    file.manifest = nlohmann::json::object();
  }
  if (vocabulary > 0 && file.architecture.vocabulary != vocabulary)
    return fail(ErrorKind::failed,
                fmt::format("the model reads {} tokens, the data has {}", file.architecture.vocabulary, vocabulary));
  const bool same_head =
      head.classes > 0 && file.architecture.classes == head.classes && file.manifest.value("task", "") == job.task_hash;
  if (head.classes > 0) {
    file.architecture.classes = head.classes;
    file.architecture.item_tokens = head.item_tokens;
  }
  auto sites =
      make_sites(file.manifest, file.architecture, context.components, context.resumed ? context.resumed->state : file.state);
  if (!sites) return pass(sites);
  start.model = std::make_unique<Gpt>(file.architecture, std::move(*sites));
  if (context.resumed) {
    if (auto status = load_tensors(*start.model, context.resumed->model, "", "lora."); !status) return pass(status);
    return start;
  }
  if (from == nullptr) {
    start.model->initialise(init);
    return start;
  }
  const std::string fresh = head.classes > 0 && !same_head ? "head." : "";
  if (!fresh.empty()) {
    for (const auto& entry : start.model->parameters().entries())
      if (entry.name.rfind(fresh, 0) == 0) start.model->parameters().initialise(entry, init);
  }
  if (auto status = load_tensors(*start.model, file.tensors, fresh, fresh); !status) return pass(status);
  return start;
}

Result<Architecture> fresh_architecture(const Job& job) {
  const auto options = model_options(job);
  if (!options) return pass(options);
  auto corpus = CorpusFacts::read(job.corpus);
  if (!corpus) return pass(corpus);
  return architecture_of(*options, corpus->vocabulary);
}

std::int64_t vocabulary_of(const Job& job) {
  const auto corpus = job.corpus.empty() ? fail(ErrorKind::usage, "no corpus") : CorpusFacts::read(job.corpus);
  return corpus ? corpus->vocabulary : 0;
}

Result<PlannedModel> planned_model_of(const std::string& artifact, const ComponentSet& components) {
  const auto manifest = read_manifest(artifact);
  if (!manifest) return pass(manifest);
  if (!manifest->contains("model")) return fail(ErrorKind::usage, "the stage in " + artifact + " leaves no model");
  const auto architecture = Architecture::from_json((*manifest)["model"]);
  if (!architecture) return pass(architecture);
  PlannedModel facts = dense_facts(*architecture);
  const auto state = read_site_state(artifact, *manifest);
  if (!state) return pass(state);
  const auto sites = make_sites(*manifest, *architecture, components, *state);
  if (!sites) return pass(sites);
  for (const auto& site : *sites) {
    ParameterStore counted;
    site->bind(counted, site_prefix(site->site().place, site->site().layer));
    set_experts(facts, *site, counted, false);
  }
  const auto cost = manifest->value("cost", nlohmann::json::object());
  facts.total = cost.value("total_parameters", facts.total);
  facts.active = cost.value("active_parameters", facts.active);
  if (const auto schedule = ScheduleState::from_json(manifest->value("schedule", nlohmann::json()))) {
    facts.trained_steps = schedule->step;
    facts.schedule_steps = schedule->steps;
    facts.tokens_per_step = schedule->tokens_per_step;
  }
  return facts;
}

Result<PlannedModel> planned_of(const JobInput& input, const CheckContext& context) {
  const auto found = context.planned.find(input.stage);
  if (found == context.planned.end()) return planned_model_of(input.path, context.components);
  PlannedModel facts = found->second;
  if (input.snapshot.empty()) return facts;
  const auto step = ScheduleState{facts.trained_steps, facts.schedule_steps, facts.tokens_per_step}.step_of(input.snapshot);
  if (!step) return pass(step);
  facts.trained_steps = *step;
  return facts;
}

std::optional<PlannedModel> planned_starting_model(const CheckContext& context, std::int64_t vocabulary, const Head& head,
                                                   ConfigProblems& problems) {
  PlannedModel facts;
  if (const JobInput* from = context.job.input("from")) {
    auto planned = planned_of(*from, context);
    if (!planned) {
      problems.push_back({"from", planned.error().message});
      return std::nullopt;
    }
    facts = std::move(*planned);
    facts.body_trains = true;
    if (vocabulary > 0 && facts.architecture.vocabulary > 0 && facts.architecture.vocabulary != vocabulary) {
      problems.push_back(
          {"from", fmt::format("the model reads {} tokens, the data has {}", facts.architecture.vocabulary, vocabulary)});
      return std::nullopt;
    }
  } else {
    const auto options = model_options(context.job);
    if (!options) {
      problems.push_back({"model", options.error().message});
      return std::nullopt;
    }
    // A corpus that is not prepared yet has no vocabulary to tell: costs are then counted without it.
    const auto architecture = architecture_of(*options, vocabulary > 0 ? vocabulary : 1);
    if (!architecture) {
      problems.push_back({"model", architecture.error().message});
      return std::nullopt;
    }
    facts = dense_facts(*architecture);
  }
  if (head.classes > 0) {
    const double more =
        static_cast<double>(head.classes - facts.architecture.classes) * static_cast<double>(facts.architecture.width + 1);
    facts.total += more;
    facts.active += more;
    facts.architecture.classes = head.classes;
    facts.architecture.item_tokens = head.item_tokens;
  }
  return facts;
}

}  // namespace moiety::engine
