#include "kernel/host/recipe/homes.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/base/text.h"

namespace moiety::host {

const std::map<std::string, std::vector<std::string>>& fixed_tables() {
  static const auto* tables = new std::map<std::string, std::vector<std::string>>{
      {"recipe", {"about", "baseline", "confidence", "extends", "name", "seeds", "unset"}},
      {"corpus", {"fraction", "groups", "tokenizer", "use", "without"}},
      {"corpus.tokenizer", {"use", "vocabulary"}},
      {"limits", {"call", "memory"}},
      {"plugins", {"path"}},
      {"claim.<id>", {"at", "by", "equal", "every", "explore", "margin", "mean", "most", "published", "some", "source", "that"}},
  };
  return *tables;
}

const std::vector<std::string>& stage_keys() {
  static const auto* keys = new std::vector<std::string>{"arms", "device", "do", "dtype", "model", "seed", "threads"};
  return *keys;
}

namespace {

/// Tables below a stage in which declared parameters have this key: "" for the stage itself, "schedule", "feed_forward.router".
void tables_with(const Catalog& catalog, const std::vector<ParameterDeclaration>& declared, const std::string& key,
                 const std::string& prefix, std::vector<std::string> kinds, std::vector<std::string>& found) {
  const auto add = [&](const std::string& table) {
    if (std::find(found.begin(), found.end(), table) == found.end()) found.push_back(table);
  };
  for (const auto& parameter : declared) {
    const auto path = split(parameter.name, '.');
    std::string table = prefix;
    for (const auto& part : path) {
      if (part == key) add(table);
      table += (table.empty() ? "" : ".") + part;
    }
    // A router that is a part of a router has no further one.
    const auto same = std::count(kinds.begin(), kinds.end(), parameter.kind);
    if (parameter.type != "component" || kinds.size() >= 3 || same > 1) continue;
    kinds.push_back(parameter.kind);
    for (const auto& component : catalog.components) {
      if (component.kind == parameter.kind) tables_with(catalog, component.parameters, key, table, kinds, found);
    }
    kinds.pop_back();
  }
}

std::string bracketed(const std::string& stage, const std::string& table) {
  return "[stage." + stage + (table.empty() ? "" : "." + table) + "]";
}

}  // namespace

std::string find_home(const Catalog& catalog, const std::string& key, const std::string& path, const std::string& label) {
  if (key == "use") return {};  // it stands in many tables and tells nothing
  const auto parts = split(path, '.');
  const bool in_stage = parts.size() >= 2 && parts[0] == "stage";
  const auto is_key = [&](const std::vector<std::string>& keys) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  std::string here;
  for (std::size_t i = 2; in_stage && i < parts.size(); ++i) here += (here.empty() ? "" : ".") + parts[i];

  if (in_stage) {
    // The stage's own verb first: the key may only be one table off. A component's label says nothing about the verb.
    for (const auto& verb : catalog.verbs) {
      if (label != verb.name && label.find('/') == std::string::npos) continue;
      std::vector<std::string> tables;
      tables_with(catalog, verb.parameters, key, "", {}, tables);
      for (const auto& input : verb.inputs) {
        if (input.name == key) tables.emplace_back("");
      }
      const auto fits = [&](const std::string& table) {
        return table != here && (label == verb.name || here.rfind(table, 0) == 0 || table.rfind(here, 0) == 0);
      };
      const auto steps = [](const std::string& table) { return std::count(table.begin(), table.end(), '.'); };
      std::stable_sort(tables.begin(), tables.end(), [&](const auto& a, const auto& b) { return steps(a) < steps(b); });
      const auto found = std::find_if(tables.begin(), tables.end(), fits);
      if (found != tables.end()) return bracketed(parts[1], *found);
    }
    if (!here.empty() && is_key(stage_keys())) return bracketed(parts[1], "");
  }
  for (const auto& [table, keys] : fixed_tables()) {
    // `at` stands in several tables, and many people look for a `path`: they tell nothing.
    if (table != path && key != "at" && key != "path" && is_key(keys)) return "[" + table + "]";
  }
  std::vector<std::string> tables;
  tables_with(catalog, catalog.model, key, "", {"", "", ""}, tables);
  if (!tables.empty() && path != "model") return tables[0].empty() ? "[model]" : "[model." + tables[0] + "]";
  if (in_stage) {
    for (const auto& verb : catalog.verbs) {
      tables.clear();
      tables_with(catalog, verb.parameters, key, "", {}, tables);
      for (const auto& input : verb.inputs) {
        if (input.name == key) tables.emplace_back("");
      }
      if (verb.name == label || tables.empty()) continue;
      return (tables[0].empty() ? "" : bracketed("<name>", tables[0]) + " of ") +
             fmt::format("a stage that does `{}`", verb.name);
    }
    return {};
  }
  if (is_key(stage_keys()) && key != "model") return bracketed("<name>", "");
  tables.clear();
  for (const auto& verb : catalog.verbs) {
    for (const auto& input : verb.inputs) {
      if (input.name == key) tables.emplace_back("");
    }
    tables_with(catalog, verb.parameters, key, "", {}, tables);
  }
  return tables.empty() ? "" : bracketed("<name>", tables[0]);
}

}  // namespace moiety::host
