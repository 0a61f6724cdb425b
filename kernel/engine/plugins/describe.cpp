#include "kernel/engine/plugins/describe.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>

#include "kernel/base/text.h"
#include "kernel/engine/plugins/library.h"
#include "kernel/engine/plugins/tag.h"

namespace moiety::engine {
namespace {

using nlohmann::json;

/// "a, b" → {"a", "b"}
std::vector<std::string> words(const char* list) {
  std::vector<std::string> found;
  for (std::string word : split(list, ',')) {
    word.erase(0, word.find_first_not_of(" \t\n"));
    word.erase(word.find_last_not_of(" \t\n") + 1);
    if (!word.empty()) found.push_back(std::move(word));
  }
  return found;
}

const char* name_of(ParameterType type) {
  switch (type) {
    case ParameterType::boolean:
      return "bool";
    case ParameterType::integer:
      return "integer";
    case ParameterType::number:
      return "number";
    case ParameterType::text:
      return "text";
    case ParameterType::choice:
      return "choice";
    case ParameterType::integers:
      return "integers";
    case ParameterType::texts:
      return "texts";
    case ParameterType::budget:
      return "budget";
    case ParameterType::layers:
      return "layers";
    case ParameterType::input:
      return "input";
    case ParameterType::data:
      return "data";
    case ParameterType::sets:
      return "sets";
    case ParameterType::shares:
      return "shares";
    case ParameterType::component:
      return "component";
  }
  return "text";
}

json tag_object(const BuildTag& tag) {
  json object = json::object();
  for (const auto& [field, value] : tag) object[field] = value;
  return object;
}

}  // namespace

std::vector<std::string> choice_words(const Parameter& parameter) { return words_of_choice(parameter.choices); }

std::vector<std::string> words_of_choice(const char* declared) {
  std::vector<std::string> list = words(declared);
  for (std::string& word : list) std::replace(word.begin(), word.end(), '_', '-');
  return list;
}

json describe(const Parameter& p) {
  json j = {{"name", p.name}, {"type", name_of(p.type)}, {"unit", p.unit}, {"doc", p.doc}};
  if (p.type == ParameterType::component) j["kind"] = p.kind;
  if (p.type == ParameterType::input) j["accepts"] = p.accepts;
  switch (p.fallback.kind) {
    case Default::Kind::absent:
      break;
    case Default::Kind::none:
      j["default"] = nullptr;
      break;
    case Default::Kind::boolean:
      j["default"] = p.fallback.boolean;
      break;
    case Default::Kind::number:
      j["default"] = p.fallback.number;
      break;
    case Default::Kind::text:
      j["default"] = p.fallback.text;
      break;
    case Default::Kind::integer:
      j["default"] = p.fallback.integer;
      break;
  }
  if (p.type == ParameterType::choice) {
    const std::vector<std::string> choices = choice_words(p);
    j["choices"] = choices;
    if (p.fallback.kind == Default::Kind::integer && p.fallback.integer >= 0 &&
        p.fallback.integer < static_cast<std::int64_t>(choices.size())) {
      j["default"] = choices[static_cast<std::size_t>(p.fallback.integer)];
    }
  }
  if (std::isfinite(p.low)) {
    j["low"] = p.low;
    j["low_open"] = p.low_open;
  }
  if (std::isfinite(p.high)) {
    j["high"] = p.high;
    j["high_open"] = p.high_open;
  }
  return j;
}

json describe(const Output& o) {
  json j = {{"name", o.name}, {"unit", o.unit}, {"better", o.better}, {"axes", words(o.axes)}, {"doc", o.doc}};
  if (*o.when != '\0') j["when"] = o.when;
  if (o.is_result) j["result"] = true;
  if (o.is_loss) {
    j["loss"] = true;
    j["weight"] = o.weight;
  }
  return j;
}

json describe(const ComponentEntry& e) {
  json parameters = json::array(), outputs = json::array();
  for (std::size_t i = 0; i < e.parameter_count; ++i) parameters.push_back(describe(e.parameters[i]));
  for (std::size_t i = 0; i < e.output_count; ++i) {
    const Output& o = e.outputs[i];
    outputs.push_back(describe(o));
    if (!o.is_loss) continue;
    parameters.push_back({{"name", std::string("losses.") + o.name},
                          {"type", "number"},
                          {"default", o.weight},
                          {"unit", ""},
                          {"doc", std::string("weight of the loss `") + o.name + "`: " + o.doc},
                          {"low", 0},
                          {"low_open", false}});
  }
  return {{"kind", e.kind},     {"name", e.name},           {"version", e.version}, {"summary", e.summary},
          {"source", e.source}, {"parameters", parameters}, {"outputs", outputs}};
}

json describe_own_build() { return tag_object(own_tag()); }

json probe(const std::string& path) {
  json j = {{"path", path}};
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    j["size"] = status.st_size;
    j["mtime_ns"] = static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1000000000 + status.st_mtim.tv_nsec;
  }
  if (const auto facts = read_elf(path); facts) {
    j["build_id"] = facts->build_id;
    if (facts->has_tag) {
      const BuildTag tag = parse_tag(facts->build_tag);
      j["build"] = tag_object(tag);
      json differs = json::array();
      for (const TagDifference& d : tag_differences(tag, own_tag())) {
        differs.push_back({{"field", d.field}, {"plugin", d.plugin}, {"worker", d.worker}});
      }
      if (!differs.empty()) j["differs"] = differs;
    }
  }
  const auto library = open_library(path);
  if (!library) {
    // The path is there already; what remains is the reason.
    const std::string prefix = printable(path) + ": ";
    const std::string& message = library.error().message;
    j["error"] = message.compare(0, prefix.size(), prefix) == 0 ? message.substr(prefix.size()) : message;
    if (!library.error().hint.empty()) j["hint"] = library.error().hint;
    return j;
  }
  const PluginDescriptor& d = *(*library)->descriptor;
  j["plugin"] = {{"name", d.name}, {"version", d.version}, {"summary", d.summary}};
  j["components"] = json::array();
  for (std::size_t i = 0; i < d.component_count; ++i) j["components"].push_back(describe(d.components[i]));
  return j;
}

}  // namespace moiety::engine
