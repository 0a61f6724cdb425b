// Reads one stage of an arm; what resolve_stage() works with.
#ifndef MOIETY_KERNEL_HOST_RECIPE_STAGE_READER_H_
#define MOIETY_KERNEL_HOST_RECIPE_STAGE_READER_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernel/host/recipe/stages.h"

namespace moiety::host {

class StageReader {
 public:
  /// One stage of an arm at these labels.
  StageReader(const std::string& name, const Member& member, const StageScope& scope, const AxisLabels& labels);
  std::optional<RecipeStage> read();

 private:
  void substitute_results();
  /// What its text still mentions of other stages.
  void collect_results(const Value& value);
  void copy(const std::string& key);
  bool read_verb();
  void read_parameters();
  /// A stage that says neither on which text nor on which sets it measures takes all of the text.
  void measure_all();
  /// What components measure is not known while one is missing.
  bool lacks_component() const;
  /// "flops of ARM".
  void check_budget();
  void read_task();
  void read_inputs();
  /// `references`: of the component that the input is a parameter of.
  std::optional<StageRead> read_input(const Value& item, const InputDeclaration& input, std::vector<std::string> references,
                                      const std::vector<std::string>& names);
  /// `at = ["1%", "10%"]` of a stage that measures: the states at these points are what it reads.
  void read_points();
  std::vector<std::int64_t> seeds_of(const std::string& key, const Value& value);
  void read_seed();
  void read_arms();
  void read_model();

  const StageScope& scope_;
  Diagnostics& diagnostics_;
  const AxisLabels& labels_;
  Value table_;
  RecipeStage stage_;
  TableContext context_;
  std::vector<UsedInput> used_inputs_;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_STAGE_READER_H_
