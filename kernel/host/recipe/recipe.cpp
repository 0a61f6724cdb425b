#include "kernel/host/recipe/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "kernel/base/files.h"
#include "kernel/base/text.h"
#include "kernel/host/recipe/parse.h"

namespace moiety::host {

std::int64_t SeedRule::of(const std::string& purpose, int run_seed) const {
  const auto found = purposes.find(purpose);
  if (found == purposes.end() || found->second.empty()) return run_seed;
  return found->second[static_cast<std::size_t>(run_seed - 1) % found->second.size()];
}

const std::vector<std::string>& seed_purposes() {
  static const auto* purposes = new std::vector<std::string>{"init", "data", "noise", "cluster"};
  return *purposes;
}

const std::vector<StageRead>* RecipeStage::input(const std::string& input_name) const {
  const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const auto& one) { return one.first == input_name; });
  return found == inputs.end() ? nullptr : &found->second;
}

std::vector<std::string> RecipeStage::result_names() const {
  std::set<std::string> names;
  for (const auto& one : verb->results) names.insert(one.name);
  for (const auto& used : components) {
    for (const auto& one : used.component->outputs) {
      if (one.is_result) names.insert(one.name);
    }
  }
  return {names.begin(), names.end()};
}

const std::string* RecipeStage::budget_of() const {
  const auto budget = config.find("budget");
  if (budget == config.end() || !budget->is_object()) return nullptr;
  const auto of = budget->find("of");
  return of == budget->end() ? nullptr : of->get_ptr<const std::string*>();
}

bool RecipeStage::has_open_budget() const {
  const auto budget = config.find("budget");
  return budget_of() != nullptr || (budget != config.end() && budget->is_object() && budget->value("unit", "") == "flops");
}

bool RecipeStage::reads_corpus() const {
  return verb->needs_corpus || std::any_of(verb->parameters.begin(), verb->parameters.end(), [&](const auto& one) {
           return (one.type == "data" || one.type == "sets") && config.contains(one.name) && config.at(one.name).is_object();
         });
}

const RecipeStage* RecipeArm::stage(const std::string& stage_name) const {
  const auto found = std::find_if(stages.begin(), stages.end(), [&](const RecipeStage& one) { return one.name == stage_name; });
  return found == stages.end() ? nullptr : &*found;
}

std::vector<const RecipeStage*> RecipeArm::instances(const std::string& stage_name) const {
  std::vector<const RecipeStage*> found;
  for (const auto& one : stages) {
    if (one.name == stage_name) found.push_back(&one);
  }
  return found;
}

const RecipeArm* Recipe::arm(const std::string& arm_name) const {
  const auto found = std::find_if(arms.begin(), arms.end(), [&](const RecipeArm& one) { return one.name == arm_name; });
  return found == arms.end() ? nullptr : &*found;
}

namespace {

/// The tables in the files of a folder, with the names that they, or their files, have.
std::vector<std::pair<std::string, Value>> tables_in(const std::string& folder) {
  std::vector<std::pair<std::string, Value>> tables;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().extension() != ".toml") continue;
    const auto text = read_file(entry.path().string());
    if (!text) continue;
    Sources sources;
    Diagnostics diagnostics(sources);
    auto table = parse_toml(*text, most_extends, diagnostics);
    if (!table) continue;
    const Value* name = table->find("name");
    std::string key = name != nullptr && name->is_text() ? name->text : entry.path().stem().string();
    tables.emplace_back(std::move(key), std::move(*table));
  }
  return tables;
}

}  // namespace

std::map<std::string, int> known_data(const std::string& folder) {
  std::map<std::string, int> known;
  for (const auto& [name, table] : tables_in(folder)) {
    const Value* version = table.find("version");
    const int number = version != nullptr && version->is(Value::Type::integer) ? static_cast<int>(version->integer) : 1;
    auto& newest = known[name];
    newest = std::max(newest, number);
  }
  return known;
}

std::map<std::string, std::vector<std::string>> known_domains(const std::string& folder) {
  std::map<std::string, std::vector<std::string>> known;
  for (const auto& [name, table] : tables_in(folder)) {
    const Value* domains = table.find("domain");
    for (const auto& domain : domains != nullptr ? domains->items : std::vector<Value>{}) {
      const Value* of = domain.find("name");
      if (of != nullptr && of->is_text()) known[name].push_back(of->text);
    }
  }
  return known;
}

}  // namespace moiety::host
