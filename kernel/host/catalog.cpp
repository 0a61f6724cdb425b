#include "kernel/host/catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "kernel/host/json_fields.h"

namespace moiety::host {

bool OutputDeclaration::exists(const nlohmann::json& config) const {
  return when.empty() || (config.contains(when) && !config.at(when).is_null());
}

std::set<std::string> VerbDeclaration::optional_tables() const {
  std::set<std::string> names;
  for (const auto& metric : metrics) {
    if (!metric.when.empty()) names.insert(metric.when);
  }
  return names;
}

bool VerbDeclaration::uses_task(const nlohmann::json& config) const {
  return needs_task || (config.contains("task") && config.at("task").is_string()) ||
         std::any_of(metrics.begin(), metrics.end(), [&](const auto& metric) {
           return metric.when == "on" && metric.exists(config) && !config.at("on").is_object();
         });
}

bool VerbDeclaration::trains() const {
  return std::any_of(parameters.begin(), parameters.end(), [](const auto& one) { return one.type == "budget"; });
}

const VerbDeclaration* Catalog::verb(const std::string& name) const {
  const auto found = std::find_if(verbs.begin(), verbs.end(), [&](const auto& one) { return one.name == name; });
  return found == verbs.end() ? nullptr : &*found;
}

const ComponentDeclaration* Catalog::component(const std::string& kind, const std::string& use) const {
  const auto at = use.find('@');
  const std::string name = use.substr(0, at);
  int version = 0;
  if (at != std::string::npos) {
    const char* end = use.data() + use.size();
    const auto [rest, error] = std::from_chars(use.data() + at + 1, end, version);
    if (error != std::errc() || rest != end || version < 1) return nullptr;
  }
  const ComponentDeclaration* newest = nullptr;
  for (const auto& one : components) {
    if (one.kind != kind || one.name != name || (version != 0 && one.version != version)) continue;
    if (newest == nullptr || one.version > newest->version) newest = &one;
  }
  return newest;
}

std::vector<std::string> Catalog::verb_names() const {
  std::vector<std::string> names;
  for (const auto& one : verbs) names.push_back(one.name);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> Catalog::component_names(const std::string& kind) const {
  std::vector<std::string> names;
  for (const auto& one : components) {
    if (one.kind == kind) names.push_back(one.name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

namespace {

/// Reads declarations and remembers the first thing that is wrong with them; what it returns then is empty.
class Reader {
 public:
  const std::string& problem() const { return problem_; }

  const nlohmann::json& member(const nlohmann::json& json, const char* key) {
    static const nlohmann::json nothing;
    if (json.is_object() && json.contains(key)) return json.at(key);
    note(fmt::format("`{}` is missing", key));
    return nothing;
  }
  std::string text(const nlohmann::json& json, const char* key) {
    const auto& value = member(json, key);
    if (!value.is_string()) note(fmt::format("`{}` is no text", key));
    return value.is_string() ? value.get<std::string>() : std::string();
  }
  const nlohmann::json& list(const nlohmann::json& json, const char* key) {
    static const nlohmann::json empty = nlohmann::json::array();
    const auto& value = member(json, key);
    if (value.is_array()) return value;
    note(fmt::format("`{}` is no list", key));
    return empty;
  }
  std::vector<std::string> texts(const nlohmann::json& json, const char* key) {
    std::vector<std::string> result;
    if (!json.is_object() || !json.contains(key) || json.at(key).is_null()) return result;
    for (const auto& item : list(json, key)) {
      if (item.is_string()) {
        result.push_back(item.get<std::string>());
      } else {
        note(fmt::format("`{}` has an item that is no text", key));
      }
    }
    return result;
  }

  std::vector<ParameterDeclaration> parameters(const nlohmann::json& json) {
    std::vector<ParameterDeclaration> result;
    for (const auto& item : json) {
      ParameterDeclaration one;
      one.name = text(item, "name");
      one.type = text(item, "type");
      if (!item.is_object()) continue;
      one.kind = text_at(item, "kind");
      one.accepts = text_at(item, "accepts");
      one.required = !item.contains("default");
      one.fallback = item.value("default", nlohmann::json());
      one.unit = text_at(item, "unit");
      one.doc = text_at(item, "doc");
      one.low = amount(item, "low");
      one.high = amount(item, "high");
      one.low_open = flag(item, "low_open");
      one.high_open = flag(item, "high_open");
      one.choices = texts(item, "choices");
      if (one.type == "component" && one.kind.empty()) note(fmt::format("the component `{}` has no kind", one.name));
      result.push_back(std::move(one));
    }
    return result;
  }

  std::vector<OutputDeclaration> outputs(const nlohmann::json& json, const char* key) {
    std::vector<OutputDeclaration> result;
    if (!json.is_object() || !json.contains(key)) return result;
    for (const auto& item : list(json, key)) {
      OutputDeclaration one;
      one.name = text(item, "name");
      one.unit = text_at(item, "unit");
      one.doc = text_at(item, "doc");
      one.better = whole(item, "better", 0);
      one.axes = texts(item, "axes");
      one.when = text_at(item, "when");
      one.is_result = flag(item, "result");
      one.is_loss = flag(item, "loss");
      result.push_back(std::move(one));
    }
    return result;
  }

  VerbDeclaration verb(const nlohmann::json& json) {
    VerbDeclaration one;
    one.name = text(json, "name");
    one.summary = text_at(json, "summary");
    one.leaves = text(json, "leaves");
    one.measures = flag(json, "measures");
    static const nlohmann::json nothing = nlohmann::json::object();
    const nlohmann::json& needs = json.is_object() && json.contains("needs") ? json.at("needs") : nothing;
    one.needs_corpus = flag(needs, "corpus");
    one.needs_task = flag(needs, "task");
    for (const auto& item : list(json, "inputs")) {
      one.inputs.push_back({text(item, "name"), text_at(item, "accepts"), flag(item, "required"), flag(item, "list")});
    }
    one.parameters = parameters(list(json, "parameters"));
    one.metrics = outputs(json, "metrics");
    one.results = outputs(json, "results");
    one.seeds = json.is_object() && json.contains("seeds") ? texts(json, "seeds")
                                                           : std::vector<std::string>{"init", "data", "noise", "cluster"};
    return one;
  }

  std::vector<ComponentDeclaration> components(const nlohmann::json& file) {
    std::vector<ComponentDeclaration> result;
    const auto& plugin = member(file, "plugin");
    for (const auto& item : list(file, "components")) {
      ComponentDeclaration one;
      one.kind = text(item, "kind");
      one.name = text(item, "name");
      one.version = whole(item, "version", 1);
      one.summary = text_at(item, "summary");
      one.source = text_at(item, "source");
      one.plugin = text(plugin, "name");
      one.plugin_version = text_at(plugin, "version");
      one.file = text(file, "path");
      one.build_id = text(file, "build_id");
      one.parameters = parameters(list(item, "parameters"));
      one.outputs = outputs(item, "outputs");
      result.push_back(std::move(one));
    }
    return result;
  }

  static bool flag(const nlohmann::json& json, const char* key) {
    return json.is_object() && json.contains(key) && json.at(key).is_boolean() && json.at(key).get<bool>();
  }
  static int whole(const nlohmann::json& json, const char* key, int fallback) {
    return json.is_object() && json.contains(key) && json.at(key).is_number_integer() ? json.at(key).get<int>() : fallback;
  }
  static std::optional<double> amount(const nlohmann::json& json, const char* key) {
    if (!json.is_object() || !json.contains(key) || !json.at(key).is_number()) return std::nullopt;
    return json.at(key).get<double>();
  }

 private:
  void note(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }
  std::string problem_;
};

/// One file's failure is kept and shown; the others go on.
void add_file(const nlohmann::json& file, Catalog& catalog) {
  const std::string path = text_at(file, "path");
  const std::string error = text_at(file, "error");
  if (!error.empty()) {
    catalog.failures.push_back({path, error});
    return;
  }
  Reader reader;
  auto components = reader.components(file);
  if (!reader.problem().empty()) {
    catalog.failures.push_back({path, "what the probe said is incomplete: " + reader.problem()});
    return;
  }
  for (auto& one : components) {
    // The folders are searched in order: what was found first counts.
    if (const auto* known = catalog.component(one.kind, one.use())) {
      catalog.failures.push_back({path, fmt::format("{}/{} is already provided by {}", one.kind, one.use(), known->file)});
    } else {
      catalog.components.push_back(std::move(one));
    }
  }
}

}  // namespace

Result<Catalog> Catalog::from_json(const nlohmann::json& describe, const std::vector<nlohmann::json>& probed_files) {
  Catalog catalog;
  Reader reader;
  const auto& worker = reader.member(describe, "worker");
  catalog.worker_version = text_at(worker, "version");
  catalog.worker_build_id = reader.text(worker, "build_id");
  catalog.torch_version = reader.text(worker, "torch_version");
  catalog.torch_build_id = reader.text(worker, "torch_build_id");
  catalog.cpu = text_at(worker, "cpu");
  catalog.results_revision = Reader::whole(worker, "results_revision", 1);
  catalog.model = reader.parameters(reader.list(describe, "model"));
  for (const auto& verb : reader.list(describe, "verbs")) catalog.verbs.push_back(reader.verb(verb));
  if (!reader.problem().empty()) {
    return fail(ErrorKind::environment, "moiety-worker --describe: " + reader.problem(),
                "build moiety and moiety-worker from the same sources");
  }
  for (const auto& file : probed_files) add_file(file, catalog);
  return catalog;
}

}  // namespace moiety::host
