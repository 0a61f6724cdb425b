// Reads a recipe's file table by table; what load_recipe() works with.
#ifndef MOIETY_KERNEL_HOST_RECIPE_RECIPE_READER_H_
#define MOIETY_KERNEL_HOST_RECIPE_RECIPE_READER_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "kernel/host/recipe/arms.h"
#include "kernel/host/recipe/recipe.h"
#include "kernel/host/recipe/stages.h"

namespace moiety::host {

class RecipeReader {
 public:
  RecipeReader(const Catalog& catalog, const LoadOptions& options) : catalog_(catalog), options_(options) {}

  Result<Recipe> read(const std::string& path);

 private:
  void check_top_level(const Value& root);
  bool read_stage_table();
  void check_stage_names(const Value& stages);
  static bool is_bare(const std::string& name) { return toml_key(name) == name; }
  CheckedTable check_table(const std::string& name, const std::vector<ParameterDeclaration>& declared);
  void read_recipe_table();
  void read_corpus();
  /// The corpus' domains, where they are known, and the groups made of them.
  void read_domains(const std::string& corpus, const Value& table, const Value& groups);
  void read_limits();
  /// Only checked and written out: the folders were searched, or not trusted, before the recipe could be read.
  void read_plugin_paths();
  void read_arms_and_stages(const Defaults& defaults);
  /// The patch of an arm with defaults and versions written out.
  Value resolved_arm(const ArmText& arm, const ArmStages& stages, const StageScope& scope);
  /// The recipe without any arm's patch, for the resolved text; and errors of stages that no arm reaches.
  void resolve_base(const std::set<std::string>& reached);
  void check_baseline();
  /// Arms may take their budgets from arms that take theirs from others, but not in a circle.
  void check_totals();
  static bool circle_of(const std::string& first, const std::map<std::string, std::map<std::string, Place>>& takes,
                        std::vector<std::string>& way);
  void check_corpus();
  void finish();

  const Catalog& catalog_;
  const LoadOptions& options_;
  Sources sources_;
  Diagnostics diagnostics_{sources_};
  Value root_ = Value::table(), resolved_ = Value::table();
  std::vector<std::string> arm_names_;
  bool broken_ = false;
  Recipe recipe_;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_RECIPE_READER_H_
