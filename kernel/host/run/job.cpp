#include "kernel/host/run/job.h"

#include "kernel/base/text.h"
#include "kernel/host/json_fields.h"

namespace moiety::host {
namespace {

using nlohmann::json;

json entry(const std::string& slot, const ComponentDeclaration& component) {
  return {{"slot", slot},           {"kind", component.kind},        {"name", component.name}, {"version", component.version},
          {"file", component.file}, {"build_id", component.build_id}};
}

/// A prepared folder as the job names it, or null.
json folder_text(const PreparedFolder& folder) {
  if (folder.hash.empty()) return nullptr;
  return {{"path", folder.path}, {"hash", folder.hash}};
}

json base_job(const JobContext& context, const PlannedStage& stage, std::int64_t attempt) {
  json inputs = json::array();
  for (const auto& input : stage.inputs) {
    json one = {{"name", input.name}, {"stage", input.stage_id}, {"path", context.store.artifact(input.stage_id)}};
    if (!input.snapshot.empty()) {
      one["snapshot"] = input.snapshot;
      one["path"] = context.store.snapshot(input.stage_id, input.snapshot);
    }
    inputs.push_back(std::move(one));
  }
  json corpus = stage.corpus_hash.empty() ? json() : folder_text(context.data.corpus);
  if (corpus.is_object() && stage.fraction != 1) corpus["fraction"] = stage.fraction;
  json components = json::array();
  for (const auto& used : stage.components) components.push_back(entry(used.slot, *used.component));
  const auto task = context.data.tasks.find(stage.task);
  return {{"stage", stage.id},
          {"name", stage.name},
          {"verb", stage.verb->name},
          {"seeds", stage.seeds},
          {"config", stage.config},
          {"model", stage.model},
          {"inputs", std::move(inputs)},
          {"corpus", std::move(corpus)},
          {"groups", stage.groups},
          {"snapshots", stage.snapshots},
          {"keep_optimizer", stage.keep_optimizer},
          {"task", task != context.data.tasks.end() ? folder_text(task->second) : json()},
          {"components", std::move(components)},
          {"registry", context.registry},
          {"attempt", attempt},
          {"work", context.store.work(stage.id)},
          {"artifact", context.store.artifact(stage.id)},
          {"threads", stage.threads},
          {"checkpoint_seconds", context.checkpoint_seconds}};
}

/// `name@1` of a component's text: its `use`, or the text itself.
std::string use_of(const json& text) { return text.is_string() ? text.get<std::string>() : text_at(text, "use"); }

/// The component that `text` names, and the parts that its configuration names (a constructor's clusterer, …).
Status add_component(const Catalog& catalog, const std::string& slot, const std::string& kind, const std::string& use,
                     const json& config, json* components) {
  if (use.empty()) return {};
  const auto* component = catalog.component(kind, use);
  if (component == nullptr) {
    return fail(ErrorKind::failed, "the model that it reads needs " + kind + "/" + use + ", which no plugin provides",
                "`moiety plugins -v` lists the folders searched and the files that failed");
  }
  components->push_back(entry(slot, *component));
  if (!config.is_object()) return {};
  for (const auto& parameter : component->parameters) {
    if (parameter.type != "component") continue;
    const json* value = &config;
    for (const auto& key : split(parameter.name, '.')) {
      if (value == nullptr || !value->is_object()) break;
      const auto found = value->find(key);
      value = found == value->end() ? nullptr : &*found;
    }
    if (value == nullptr || value == &config) continue;
    if (auto status = add_component(catalog, slot + "." + parameter.name, parameter.kind, use_of(*value), *value, components);
        !status)
      return status;
  }
  return {};
}

/// A constructor or a router as the site of a stored model names it: {"use", "config"}.
Status add_site_components(const Catalog& catalog, const std::string& slot, const char* kind, const json& part,
                           json* components) {
  return add_component(catalog, slot, kind, use_of(part), member_at(part, "config"), components);
}

Status add_manifest_components(const JobContext& context, const StageInput& input, json* components) {
  const auto manifest = context.store.manifest(input.stage_id, input.snapshot);
  const auto& sites = member_at(manifest, "sites");
  if (!sites.is_array()) return {};
  for (const auto& site : sites) {
    if (!site.is_object()) continue;
    const auto& layer = member_at(site, "layer");
    const auto& place = member_at(site, "place");
    const std::string slot = input.name + ".layer" + (layer.is_null() ? "" : layer.dump()) + "." +
                             (place.is_string() ? place.get<std::string>() : "site");
    if (auto status = add_site_components(context.catalog, slot + ".experts", "expert_constructor",
                                          member_at(site, "constructor"), components);
        !status)
      return status;
    if (auto status = add_site_components(context.catalog, slot + ".router", "router", member_at(site, "router"), components);
        !status)
      return status;
  }
  return {};
}

void add_planned_components(const Plan& plan, const PlannedStage& stage, const std::string& prefix, json* components) {
  for (const auto& input : stage.inputs) {
    const auto* read = plan.stage(input.stage_id);
    if (read == nullptr) continue;
    const auto inner = prefix + input.name + ".";
    for (const auto& used : read->components) components->push_back(entry(inner + used.slot, *used.component));
    add_planned_components(plan, *read, inner, components);
  }
}

}  // namespace

Result<json> make_job(const JobContext& context, const PlannedStage& stage, std::int64_t attempt) {
  json job = base_job(context, stage, attempt);
  for (const auto& input : stage.inputs) {
    if (auto status = add_manifest_components(context, input, &job["components"]); !status) return pass(status);
  }
  return job;
}

json make_check_job(const JobContext& context, const PlannedStage& stage) {
  json job = base_job(context, stage, 0);
  add_planned_components(context.plan, stage, "", &job["components"]);
  return job;
}

}  // namespace moiety::host
