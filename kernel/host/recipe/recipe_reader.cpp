#include "kernel/host/recipe/recipe_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "kernel/base/text.h"
#include "kernel/host/claims/check.h"
#include "kernel/host/recipe/choices.h"
#include "kernel/host/recipe/fixed_parameters.h"
#include "kernel/host/recipe/groups.h"
#include "kernel/host/recipe/homes.h"
#include "kernel/host/recipe/plugin_paths.h"
#include "kernel/host/recipe/quantities.h"
#include "kernel/host/recipe/reference.h"
#include "kernel/host/recipe/resolved_text.h"

namespace moiety::host {
namespace {

constexpr std::size_t most_stages = 500;
const char* const default_of_recipes = "default of every recipe";

}  // namespace

Result<Recipe> RecipeReader::read(const std::string& path) {
  auto document = load_document(path, options_.overrides, sources_, diagnostics_);
  if (!document) return diagnostics_.as_error();
  recipe_.path = document->path;
  recipe_.raw_text = document->raw_text;
  check_top_level(document->root);
  expand_definitions(*document, diagnostics_);
  root_ = std::move(document->root);
  if (!read_stage_table()) return diagnostics_.as_error();
  const Defaults defaults(root_, catalog_, diagnostics_);
  defaults.apply(root_);
  read_recipe_table();
  read_corpus();
  read_limits();
  read_plugin_paths();
  read_arms_and_stages(defaults);
  check_baseline();
  check_totals();
  check_corpus();
  if (!broken_) check_choices(recipe_, diagnostics_);
  recipe_.claims =
      read_claims(root_, defaults.claim_places(), as_reported(recipe_), !broken_ && diagnostics_.spoilt() == 0, diagnostics_);
  if (diagnostics_.any()) return diagnostics_.as_error();
  finish();
  return std::move(recipe_);
}

void RecipeReader::check_top_level(const Value& root) {
  static const std::vector<std::string> known = {"arm",    "axes",    "choose", "claim",   "corpus", "defaults", "define",
                                                 "limits", "measure", "model",  "plugins", "recipe", "stage"};
  TableContext context;
  context.path = "the top level";
  for (const auto& [key, member] : root.members) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    Checker(catalog_, diagnostics_).unknown_key(key, member.key, context, known);
  }
}

bool RecipeReader::read_stage_table() {
  const auto found = root_.members.find("stage");
  if (found == root_.members.end()) {
    diagnostics_.error({most_extends, 0, 0, 0}, "the recipe has no [stage.NAME]: nothing to do");
    return false;
  }
  if (!found->second.value.is_table()) {
    diagnostics_.error(found->second.key, "[stage] is a table of stages");
    return false;
  }
  if (found->second.value.members.size() > most_stages) {
    diagnostics_.error(found->second.key,
                       fmt::format("{} stages; at most {} are possible", found->second.value.members.size(), most_stages));
    return false;
  }
  check_stage_names(found->second.value);
  return true;
}

void RecipeReader::check_stage_names(const Value& stages) {
  for (const auto& [name, member] : stages.members) {
    if (!is_bare(name) || name == "use" || name == "extends" || name == "unset" || name.size() > 80) {
      diagnostics_.error(
          member.key,
          fmt::format("`{}` cannot be the name of a stage: letters, digits, `_` and `-`, not use, extends or unset", name));
    }
  }
}

CheckedTable RecipeReader::check_table(const std::string& name, const std::vector<ParameterDeclaration>& declared) {
  const auto found = root_.members.find(name);
  static const Value nothing = Value::table();
  TableContext context;
  context.path = name;
  context.default_of = default_of_recipes;
  if (found != root_.members.end()) {
    context.place = found->second.key;
    if (!found->second.value.is_table()) {
      diagnostics_.error(found->second.key,
                         fmt::format("[{}] is a table, but this is {}", name, type_name(found->second.value.type)));
      return {};
    }
  }
  auto checked =
      Checker(catalog_, diagnostics_).check(found != root_.members.end() ? found->second.value : nothing, declared, context);
  resolved_.set(name, checked.text);
  return checked;
}

void RecipeReader::read_recipe_table() {
  const auto checked = check_table("recipe", recipe_parameters());
  const auto& config = checked.config;
  recipe_.name = config.value("name", std::filesystem::path(recipe_.path).stem().string());
  recipe_.about = config.value("about", "");
  recipe_.baseline = config.value("baseline", "");
  recipe_.seeds = config.value("seeds", 1);
  recipe_.confidence = config.value("confidence", 0.95);
  if (!config.contains("name") && resolved_.find("recipe") != nullptr) {
    Value name = Value::of(recipe_.name);
    name.origin = "the name of the file";
    resolved_.find("recipe")->set("name", std::move(name));
  }
}

void RecipeReader::read_corpus() {
  if (root_.find("corpus") == nullptr) return;
  Value* table = root_.find("corpus");
  const Value* written_groups = table->find("groups");
  const Value groups = written_groups != nullptr ? *written_groups : Value::table();
  if (table->is_table()) {
    const auto found = table->members.find("path");
    if (found != table->members.end()) {
      diagnostics_.error(found->second.key, "unknown key `path` in corpus: own text as a corpus is not known in this version");
      table->members.erase(found);
    }
    table->members.erase("groups");
  }
  auto checked = check_table("corpus", corpus_parameters());
  if (!checked.config.contains("use")) return;
  Value& use = *resolved_.find("corpus")->find("use");
  use.text = with_version("corpus", use.text, use.place, options_.corpora, diagnostics_);
  checked.config["use"] = use.text;
  read_domains(use.text.substr(0, use.text.find('@')), *table, groups);
  recipe_.fraction = checked.config.value("fraction", 1.0);
  checked.config.erase("fraction");
  recipe_.corpus = checked.config;
}

void RecipeReader::read_domains(const std::string& corpus, const Value& table, const Value& groups) {
  const auto found = options_.domains.find(corpus);
  std::vector<std::string> domains = found != options_.domains.end() ? found->second : std::vector<std::string>{};
  if (const Value* without = table.find("without")) {
    const std::vector<Value> single = {*without};
    for (const Value& item : without->is(Value::Type::array) ? without->items : single) {
      check_domain(item, "corpus.without", domains, diagnostics_);
      domains.erase(std::remove(domains.begin(), domains.end(), item.text), domains.end());
    }
  }
  if (!groups.is_table() || !groups.members.empty()) recipe_.groups = read_groups(groups, domains, diagnostics_);
  if (groups.is_table() && !groups.members.empty()) resolved_.find("corpus")->set("groups", groups);
  if (domains.empty()) return;
  recipe_.domains = std::move(domains);
  for (const auto& [name, group] : recipe_.groups.items()) recipe_.domains.push_back(name);
}

void RecipeReader::read_limits() {
  const auto checked = check_table("limits", limits_parameters());
  if (!checked.config.contains("call") || !checked.config.contains("memory")) return;
  const auto call = parse_duration(checked.config["call"].get<std::string>());
  const auto memory = parse_memory(checked.config["memory"].get<std::string>());
  if (!call) diagnostics_.error(checked.text.find("call")->place, "`call` in limits must be a time, as in \"10 min\"");
  if (!memory) diagnostics_.error(checked.text.find("memory")->place, "`memory` in limits must be a size, as in \"4 GiB\"");
  if (call) recipe_.limits.call_seconds = *call;
  if (memory) recipe_.limits.memory = *memory;
}

void RecipeReader::read_plugin_paths() {
  if (root_.find("plugins") == nullptr) return;
  check_table("plugins", plugins_parameters());
  Value* table = resolved_.find("plugins");
  Value* paths = table != nullptr ? table->find("path") : nullptr;
  if (paths == nullptr) return;
  for (auto& path : paths->items) {
    if (path.text.empty())
      diagnostics_.error(path.place, "`path` in plugins has an empty path; the folder of the recipe itself is \".\"");
    path.text = plugin_path_from_recipe(path, sources_);
  }
}

void RecipeReader::check_corpus() {
  std::set<std::string> tasks;
  for (const auto& arm : recipe_.arms) {
    for (const auto& stage : arm.stages) {
      if (!stage.task.empty()) tasks.insert(stage.task);
      if (!stage.reads_corpus() && stage.task.empty()) continue;
      recipe_.needs_corpus = true;
      if (root_.find("corpus") == nullptr) {
        diagnostics_.error(stage.place,
                           fmt::format("stage.{} ({}) reads text, so the recipe needs [corpus]", stage.name, stage.verb->name));
      }
    }
  }
  recipe_.tasks.assign(tasks.begin(), tasks.end());
}

void RecipeReader::finish() {
  for (const char* table : {"axes", "choose", "claim", "measure"}) {
    if (const Value* written = root_.find(table)) resolved_.set(table, *written);
  }
  recipe_.options = options_;
  recipe_.resolved_text = resolved_recipe_text(resolved_, nullptr);
  recipe_.resolved_origins = resolved_recipe_text(resolved_, &sources_);
  recipe_.hash = resolved_hash(resolved_);
}

Result<Recipe> load_recipe(const std::string& path, const Catalog& catalog, const LoadOptions& options) {
  return RecipeReader(catalog, options).read(path);
}

}  // namespace moiety::host
