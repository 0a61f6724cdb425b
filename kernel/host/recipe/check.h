// A table of a recipe against declared parameters: what is wrong with positions, and the table with every default written out.
#ifndef MOIETY_KERNEL_HOST_RECIPE_CHECK_H_
#define MOIETY_KERNEL_HOST_RECIPE_CHECK_H_

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernel/host/catalog.h"
#include "kernel/host/recipe/diagnostics.h"
#include "kernel/host/recipe/value.h"

namespace moiety::host {

/// A component that a table uses, and where: "feed_forward.experts.clusterer".
struct UsedComponent {
  std::string slot;
  const ComponentDeclaration* component = nullptr;
};

/// A parameter that names a stage, and where: "sampler.clusters". The configuration has the slot in place of the name.
struct UsedInput {
  std::string slot, accepts;
  Value name;
  std::vector<std::string> references;  ///< texts with `${…}` that it, or the component around it, was made of
};

struct CheckedTable {
  nlohmann::json config = nlohmann::json::object();  ///< for the worker and for identities
  Value text = Value::table();                       ///< for people: the same as recipe text, with the origin of each leaf
  std::vector<UsedComponent> components;
  std::vector<UsedInput> inputs;
};

/// A value that waits for the result of another stage: text with `${NAME.result}` in it. It is kept as it is and not checked.
bool is_waiting(const Value& value);

/// What is checked, in words.
struct TableContext {
  std::string path;                       ///< "stage.split.feed_forward"
  std::string label;                      ///< "finetune", "router/top-k@1"; empty where the path says it all
  std::string all_keys;                   ///< "all keys: moiety plugins info finetune"
  std::string default_of;                 ///< "default of finetune"
  Place place;                            ///< of the table, for what is missing in it
  std::string slot;                       ///< prefix of the slots of its components
  std::set<std::string> also;             ///< keys somebody else checks
  std::set<std::string> optional_tables;  ///< tables that are absent unless written
  bool complete = true;                   ///< whether a missing required key is an error
  std::vector<std::string> references;    ///< texts with `${…}` that the table and those around it were made of

  std::string in() const { return label.empty() ? path : path + " (" + label + ")"; }
};

class Checker {
 public:
  /// `domains`: names that a selection of windows may have, groups too; empty or null: not checked.
  Checker(const Catalog& catalog, Diagnostics& diagnostics, const std::vector<std::string>* domains = nullptr)
      : catalog_(catalog), diagnostics_(diagnostics), domains_(domains) {}

  CheckedTable check(const Value& written, const std::vector<ParameterDeclaration>& declared, const TableContext& context);

  /// The error for a key nobody declared: the table it belongs in, else near names.
  void unknown_key(const std::string& key, const Place& place, const TableContext& context,
                   const std::vector<std::string>& known);

 private:
  struct Group;
  struct Leaf {
    nlohmann::json json;
    Value text;
  };
  void check_group(const Value* written, const Group& group, const TableContext& context, nlohmann::json& config, Value& text,
                   CheckedTable& used);
  std::optional<Leaf> check_value(const std::string& key, const Value& value, const ParameterDeclaration& declared,
                                  const TableContext& context, CheckedTable& used);
  std::optional<Leaf> check_number(const std::string& key, const Value& value, const ParameterDeclaration& declared,
                                   const TableContext& context);
  std::optional<Leaf> check_list(const std::string& key, const Value& value, const ParameterDeclaration& declared,
                                 const TableContext& context);
  std::optional<Leaf> check_layers(const std::string& key, const Value& value, const ParameterDeclaration& declared,
                                   const TableContext& context);
  std::optional<Leaf> check_input(const std::string& key, const Value& value, const ParameterDeclaration& declared,
                                  const TableContext& context, CheckedTable& used);
  std::optional<Leaf> check_shares(const std::string& key, const Value& value, const ParameterDeclaration& declared,
                                   const TableContext& context);
  std::optional<Leaf> check_sets(const std::string& key, const Value& value, const ParameterDeclaration& declared,
                                 const TableContext& context);
  std::optional<Leaf> check_component(const std::string& key, const Value& value, const ParameterDeclaration& declared,
                                      const TableContext& context, CheckedTable& used);
  const ComponentDeclaration* find_component(const std::string& key, const Value& use, const ParameterDeclaration& declared,
                                             const TableContext& context);
  std::optional<Leaf> wrong_type(const std::string& key, const Value& value, const std::string& wanted,
                                 const TableContext& context);
  void tell(const TableContext& context, const Place& place, const std::string& message, const std::string& suggestion = {},
            const std::string& reference = {}, const std::vector<std::string>& remarks = {});
  void tell_missing(const TableContext& context, const std::string& key, const std::string& doc);
  std::string home_of(const std::string& key, const TableContext& context) const;

  const Catalog& catalog_;
  Diagnostics& diagnostics_;
  const std::vector<std::string>* domains_;
  int depth_ = 0;
};

/// "at least 1 and below 8", or nothing.
std::string range_text(const ParameterDeclaration& declared);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_CHECK_H_
