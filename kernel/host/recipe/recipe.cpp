#include "kernel/host/recipe/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "kernel/base/files.h"
#include "kernel/base/text.h"
#include "kernel/host/claims/check.h"
#include "kernel/host/recipe/arms.h"
#include "kernel/host/recipe/fixed_parameters.h"
#include "kernel/host/recipe/groups.h"
#include "kernel/host/recipe/homes.h"
#include "kernel/host/recipe/parse.h"
#include "kernel/host/recipe/plugin_paths.h"
#include "kernel/host/recipe/quantities.h"
#include "kernel/host/recipe/reference.h"
#include "kernel/host/recipe/resolved_text.h"
#include "kernel/host/recipe/stages.h"

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

namespace {

constexpr std::size_t most_stages = 500;
const char* const default_of_recipes = "default of every recipe";

class RecipeReader {
 public:
  RecipeReader(const Catalog& catalog, const LoadOptions& options) : catalog_(catalog), options_(options) {}

  Result<Recipe> read(const std::string& path) {
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
    check_budgets();
    check_corpus();
    recipe_.claims = read_claims(root_, defaults.claim_places(), recipe_, !broken_ && diagnostics_.spoilt() == 0, diagnostics_);
    if (diagnostics_.any()) return diagnostics_.as_error();
    finish();
    return std::move(recipe_);
  }

 private:
  void check_top_level(const Value& root) {
    static const std::vector<std::string> known = {"arm",    "axes",    "claim", "corpus",  "defaults", "define",
                                                   "limits", "measure", "model", "plugins", "recipe",   "stage"};
    static const std::map<std::string, const char*> later = {
        {"choose", "choices on validation data are not known in this version: write the value into the stage"}};
    TableContext context;
    context.path = "the top level";
    for (const auto& [key, member] : root.members) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const auto found = later.find(key);
      if (found != later.end()) {
        diagnostics_.error(member.key, fmt::format("unknown key `{}` at the top level: {}", key, found->second));
      } else {
        Checker(catalog_, diagnostics_).unknown_key(key, member.key, context, known);
      }
    }
  }

  bool read_stage_table() {
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

  void check_stage_names(const Value& stages) {
    for (const auto& [name, member] : stages.members) {
      if (!is_bare(name) || name == "use" || name == "extends" || name == "unset" || name.size() > 80) {
        diagnostics_.error(
            member.key,
            fmt::format("`{}` cannot be the name of a stage: letters, digits, `_` and `-`, not use, extends or unset", name));
      }
    }
  }

  static bool is_bare(const std::string& name) { return toml_key(name) == name; }

  CheckedTable check_table(const std::string& name, const std::vector<ParameterDeclaration>& declared) {
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

  void read_recipe_table() {
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

  void read_corpus() {
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

  /// The corpus' domains, where they are known, and the groups made of them.
  void read_domains(const std::string& corpus, const Value& table, const Value& groups) {
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

  void read_limits() {
    const auto checked = check_table("limits", limits_parameters());
    if (!checked.config.contains("call") || !checked.config.contains("memory")) return;
    const auto call = parse_duration(checked.config["call"].get<std::string>());
    const auto memory = parse_memory(checked.config["memory"].get<std::string>());
    if (!call) diagnostics_.error(checked.text.find("call")->place, "`call` in limits must be a time, as in \"10 min\"");
    if (!memory) diagnostics_.error(checked.text.find("memory")->place, "`memory` in limits must be a size, as in \"4 GiB\"");
    if (call) recipe_.limits.call_seconds = *call;
    if (memory) recipe_.limits.memory = *memory;
  }

  /// Only checked and written out: the folders were searched, or not trusted, before the recipe could be read.
  void read_plugin_paths() {
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

  void read_arms_and_stages(const Defaults& defaults) {
    const auto arms = read_arms(root_, defaults, diagnostics_);
    for (const auto& arm : arms) arm_names_.push_back(arm.name);
    recipe_.axes = read_axes(root_, arm_names_, diagnostics_);
    std::set<std::string> reached, varied;
    std::map<std::string, Place> written;
    const auto note_stages = [&](const Value& root) {
      for (const auto& [name, member] : root.find("stage")->members) written.insert({name, member.key});
    };
    note_stages(root_);
    Value resolved_arms = Value::table();
    const bool arms_in_order = !broken_;
    for (const auto& arm : arms) {
      Value root = arm.root;
      if (root.find("stage") == nullptr) continue;
      note_stages(root);
      check_stage_names(*root.find("stage"));
      expand_stage_references(root, diagnostics_);
      const StageScope scope{catalog_, options_, diagnostics_, root, recipe_.axes, arm_names_, true, &recipe_.domains};
      auto stages = resolve_stages(arm.name, arm.place, scope);
      broken_ = broken_ || stages.broken;
      reached.insert(stages.reached.begin(), stages.reached.end());
      for (const auto& stage : stages.stages) {
        for (const auto& [axis, label] : stage.labels) varied.insert(axis);
      }
      resolved_arms.set(arm.name, resolved_arm(arm, stages, scope), arm.place);
      Value patch = arm.patch;
      recipe_.arms.push_back({arm.name, patch.to_json(), std::move(stages.stages), arm.place, nullptr});
      const auto& kept = recipe_.arms.back().stages;
      if (std::any_of(kept.begin(), kept.end(), [](const RecipeStage& one) { return !one.results.empty(); }))
        recipe_.arms.back().root = std::make_shared<const Value>(std::move(root));
    }
    if (arms_in_order && root_.find("arm") != nullptr) resolved_.set("arm", std::move(resolved_arms));
    resolve_base(reached);
    if (broken_ || diagnostics_.any()) return;
    for (const auto& axis : recipe_.axes.all()) {
      if (varied.count(axis.name) == 0 && Document::own(axis.place)) {
        diagnostics_.error(axis.place,
                           fmt::format("axis `{}`: no stage that an arm reaches mentions `${{{}}}`", axis.name, axis.name));
      }
    }
    for (const auto& [name, place] : written) {
      // A child recipe may leave stages of its parent unused.
      if (reached.count(name) == 0 && Document::own(place)) {
        diagnostics_.error(
            place, fmt::format("stage.{} is reached by no arm: an arm runs the stages that measure and what they read", name));
      }
    }
  }

  /// The patch of an arm with defaults and versions written out.
  Value resolved_arm(const ArmText& arm, const ArmStages& stages, const StageScope& scope) {
    Value result = arm.patch;
    if (Value* model = result.find("model")) {
      Sources quiet_sources = sources_;
      Diagnostics quiet(quiet_sources);
      const StageScope quiet_scope{scope.catalog, scope.options, quiet, scope.root, scope.axes, scope.arm_names, false};
      Value whole = scope.root.find("model") != nullptr ? *scope.root.find("model") : Value::table();
      substitute_first_labels(whole, scope.axes, quiet);
      const Value resolved = resolve_model(whole, {}, quiet_scope).text;
      *model = resolved_patch(*model, &resolved);
    }
    if (Value* patch = result.find("stage")) {
      for (auto& [name, member] : patch->members) {
        const std::string& stage_name = name;
        const auto found = std::find_if(stages.stages.begin(), stages.stages.end(),
                                        [&](const RecipeStage& one) { return one.name == stage_name; });
        if (found == stages.stages.end()) continue;
        const bool whole = std::find(arm.whole.begin(), arm.whole.end(), name) != arm.whole.end();
        member.value = whole ? found->text : resolved_patch(member.value, &found->text);
      }
    }
    return result;
  }

  /// The recipe without any arm's patch, for the resolved text; and errors of stages that no arm reaches.
  void resolve_base(const std::set<std::string>& reached) {
    Value root = root_;
    Sources quiet_sources = sources_;
    Diagnostics quiet(quiet_sources);
    expand_stage_references(root, quiet);
    const StageScope scope{catalog_, options_, quiet, root, recipe_.axes, arm_names_, false, &recipe_.domains};
    Value stages = Value::table();
    for (const auto& [name, member] : root.find("stage")->members) {
      const std::size_t before = quiet.size();
      const auto stage = resolve_stage(name, scope, recipe_.axes.first_labels());
      // What only arms complete is kept as written.
      const bool good = stage && quiet.size() == before;
      stages.set(name, good ? stage->text : root_.find("stage")->members.at(name).value, member.key);
      if (reached.count(name) != 0) continue;
      for (std::size_t i = before; i < quiet.size(); ++i) diagnostics_.add(quiet.list()[i]);
    }
    resolved_.set("stage", std::move(stages));
    if (Value* model = root.find("model")) {
      substitute_first_labels(*model, recipe_.axes, diagnostics_);
      StageScope model_scope{catalog_, options_, diagnostics_, root, recipe_.axes, arm_names_, false};
      Value text = resolve_model(*model, root.members.at("model").key, model_scope).text;
      if (model->is_table()) resolved_.set("model", std::move(text));
    }
  }

  void check_baseline() {
    if (recipe_.baseline.empty() || recipe_.arm(recipe_.baseline) != nullptr) return;
    const Value* baseline = resolved_.find("recipe")->find("baseline");
    diagnostics_.error(baseline->place, fmt::format("unknown arm `{}` for `baseline` in recipe", recipe_.baseline),
                       did_you_mean(recipe_.baseline, arm_names_));
  }

  /// Arms may take their budgets from arms that take theirs from others, but not in a circle.
  void check_budgets() {
    std::map<std::string, std::map<std::string, Place>> takes;
    for (const auto& arm : recipe_.arms) {
      for (const auto& stage : arm.stages) {
        const auto* from = stage.budget_of();
        if (from != nullptr) takes[arm.name].insert({*from, stage.text.find("budget")->place});
      }
    }
    for (const auto& arm : recipe_.arms) {
      std::vector<std::string> way = {arm.name};
      if (!circle_of(arm.name, takes, way)) continue;
      diagnostics_.error(takes[arm.name].at(way[1]),
                         "arms take their budgets from each other in a circle: " + join(way, " from "));
      return;
    }
  }

  static bool circle_of(const std::string& first, const std::map<std::string, std::map<std::string, Place>>& takes,
                        std::vector<std::string>& way) {
    const auto found = takes.find(way.back());
    if (found == takes.end() || way.size() > takes.size()) return false;
    for (const auto& [next, place] : found->second) {
      way.push_back(next);
      if (next == first || circle_of(first, takes, way)) return true;
      way.pop_back();
    }
    return false;
  }

  void check_corpus() {
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

  void finish() {
    for (const char* table : {"axes", "claim", "measure"}) {
      if (const Value* written = root_.find(table)) resolved_.set(table, *written);
    }
    recipe_.options = options_;
    recipe_.resolved_text = resolved_recipe_text(resolved_, nullptr);
    recipe_.resolved_origins = resolved_recipe_text(resolved_, &sources_);
    recipe_.hash = resolved_hash(resolved_);
  }

  const Catalog& catalog_;
  const LoadOptions& options_;
  Sources sources_;
  Diagnostics diagnostics_{sources_};
  Value root_ = Value::table(), resolved_ = Value::table();
  std::vector<std::string> arm_names_;
  bool broken_ = false;
  Recipe recipe_;
};

}  // namespace

Result<Recipe> load_recipe(const std::string& path, const Catalog& catalog, const LoadOptions& options) {
  return RecipeReader(catalog, options).read(path);
}

}  // namespace moiety::host
