#include "kernel/host/claims/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "kernel/base/text.h"
#include "kernel/host/claims/costs.h"
#include "kernel/host/claims/statement_check.h"
#include "kernel/host/claims/statement_text.h"
#include "kernel/host/claims/terms.h"
#include "kernel/host/recipe/homes.h"
#include "kernel/host/recipe/recipe.h"

namespace moiety::host {
namespace {

std::string scalar_text(const Value& value) {
  return value.is_text()                  ? value.text
         : value.is(Value::Type::integer) ? std::to_string(value.integer)
         : value.is(Value::Type::number)  ? number(value.number)
                                          : "";
}

class ClaimReader {
 public:
  ClaimReader(const std::string& id, const Member& member, const std::set<Place>& from_defaults, const Measures& measures,
              const Recipe& recipe, bool arms_known, Diagnostics& diagnostics)
      : table_(member.value),
        place_(member.key),
        path_("claim." + id),
        arms_known_(arms_known),
        diagnostics_(diagnostics),
        from_defaults_(from_defaults),
        recipe_(recipe),
        terms_(recipe, measures, arms_known, claim_),
        check_(claim_, terms_, arms_known) {
    claim_.id = id;
  }

  Claim read() {
    if (!table_.is_table()) {
      diagnostics_.error(table_.place, fmt::format("{} must be a table, but this is {}", path_, type_name(table_.type)));
      return std::move(claim_);
    }
    check_keys();
    claim_.source = text_of("source");
    claim_.published = text_of("published");
    const std::string by = text_of("by");
    claim_.all_seeds = by == "all seeds";
    if (!by.empty() && by != "interval" && by != "all seeds")
      diagnostics_.error(table_.find("by")->place, fmt::format("`by` in {} must be \"interval\" or \"all seeds\"", path_));
    if (claim_.all_seeds && recipe_.seeds < 5)
      diagnostics_.error(table_.find("by")->place,
                         fmt::format("`by` in {}: \"all seeds\" needs five seeds, and the recipe has {}", path_, recipe_.seeds));
    read_margin();
    read_at();
    read_quantifiers();
    read_equal();
    read_statements();
    check_uses();
    return std::move(claim_);
  }

 private:
  void check_keys() {
    const auto& known = fixed_tables().at("claim.<id>");
    for (const auto& [key, member] : table_.members) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      diagnostics_.error(member.key, fmt::format("unknown key `{}` in {}", key, path_), did_you_mean(key, known));
    }
  }

  std::string text_of(const std::string& key) {
    const Value* value = table_.find(key);
    if (value == nullptr) return {};
    if (!value->is_text()) {
      diagnostics_.error(value->place,
                         fmt::format("`{}` in {} must be text, but this is {}", key, path_, type_name(value->type)));
    }
    return value->text;
  }

  void read_margin() {
    const Value* value = table_.find("margin");
    if (value == nullptr) return;
    claim_.margin = parse_margin(scalar_text(*value));
    if (!claim_.margin) {
      diagnostics_.error(
          value->place,
          fmt::format("`margin` in {} must be a number, per cent or percentage points, as in 0.01, \"1%\" or \"0.5pp\"", path_));
    }
  }

  void read_at() {
    const Value* at = table_.find("at");
    if (at == nullptr) return;
    if (!at->is_table()) {
      diagnostics_.error(
          at->place, fmt::format("`at` in {} pins axes, as in {{ set = \"test\" }}, but this is {}", path_, type_name(at->type)));
      return;
    }
    for (const auto& [axis, member] : at->members) {
      const std::string label = scalar_text(member.value);
      if (label.empty()) {
        diagnostics_.error(member.value.place, fmt::format("`{}` in {}.at is pinned to one label", axis, path_));
      } else {
        claim_.at[axis] = label;
      }
    }
  }

  /// A list of axes; what is none is told.
  std::vector<std::string> axes_of(const std::string& key) {
    std::vector<std::string> axes;
    const Value* value = table_.find(key);
    if (value == nullptr) return axes;
    const std::vector<Value> single = {*value};
    for (const Value& item : value->is(Value::Type::array) ? value->items : single) {
      if (!item.is_text() || item.text.empty()) {
        diagnostics_.error(item.place, fmt::format("`{}` in {} lists axes, but this is {}", key, path_, type_name(item.type)));
      } else {
        axes.push_back(item.text);
        if (from_defaults_.count(item.place) == 0) own_axes_.emplace_back(key, item.place, item.text);
      }
    }
    return axes;
  }

  void read_quantifiers() {
    static const std::map<std::string, Quantifier> kinds = {
        {"every", Quantifier::every}, {"most", Quantifier::most}, {"some", Quantifier::some}};
    std::string first;
    for (const auto& [key, kind] : kinds) {
      if (table_.find(key) == nullptr) continue;
      if (!first.empty()) {
        diagnostics_.error(table_.members.at(key).key,
                           fmt::format("{} has both `{}` and `{}`: one of them says how many must hold", path_, first, key));
        continue;
      }
      first = key;
      claim_.quantifier = kind;
      claim_.quantified = axes_of(key);
    }
    claim_.mean = axes_of("mean");
  }

  /// `equal = { flops = "1%" }`.
  void read_equal() {
    const Value* equal = table_.find("equal");
    if (equal == nullptr) return;
    if (!equal->is_table()) {
      diagnostics_.error(equal->place,
                         fmt::format("`equal` in {} is a table of counts, as in {{ flops = \"1%\" }}, but this is {}", path_,
                                     type_name(equal->type)));
      return;
    }
    std::vector<std::string> counts;
    for (const auto& cost : cost_metrics()) {
      if (cost.exact) counts.push_back(cost.declaration.name);
    }
    for (const auto& [name, member] : equal->members) {
      const auto tolerance = parse_margin(scalar_text(member.value));
      if (std::find(counts.begin(), counts.end(), name) == counts.end()) {
        diagnostics_.error(member.key, fmt::format("`equal` in {}: `{}` is no count", path_, name), did_you_mean(name, counts),
                           "counts: " + join(counts, ", "));
      } else if (!tolerance || (tolerance->unit != Margin::Unit::percent && tolerance->value != 0)) {
        diagnostics_.error(member.value.place,
                           fmt::format("`{}` in {}.equal must be a tolerance in per cent, as in \"1%\"", name, path_));
      } else {
        claim_.equal[name] = tolerance->value / 100;
      }
    }
  }

  void read_statements() {
    const Value *that = table_.find("that"), *explore = table_.find("explore");
    if ((that != nullptr) == (explore != nullptr)) {
      diagnostics_.error(place_, that != nullptr ? fmt::format("{} has both `that` and `explore`: it claims or it reports", path_)
                                                 : fmt::format("{} needs `that`: what it claims", path_));
      return;
    }
    claim_.explore = explore != nullptr;
    const std::string key = claim_.explore ? "explore" : "that";
    if (claim_.explore && claim_.all_seeds)
      diagnostics_.error(table_.find("by")->place, fmt::format("`by` in {} decides, and `explore` has no verdict", path_));
    const Value& written = claim_.explore ? *explore : *that;
    const std::vector<Value> single = {written};
    const bool list = written.is(Value::Type::array);
    if (list && written.items.empty()) diagnostics_.error(written.place, fmt::format("`{}` in {} is an empty list", key, path_));
    for (const Value& item : list ? written.items : single) {
      if (!item.is_text()) {
        diagnostics_.error(item.place, fmt::format("`{}` in {} must be text, but this is {}", key, path_, type_name(item.type)));
        continue;
      }
      claim_.that += (claim_.that.empty() ? "" : "; ") + item.text;
      read_statement(StatementText(item, path_, diagnostics_));
    }
  }

  void read_statement(const StatementText& text) {
    ParseProblem problem;
    if (claim_.explore) {
      if (const auto expression = parse_expression(text.text(), problem)) return check_.explore(expression, text);
    } else if (const auto parsed = parse_statement(text.text(), problem)) {
      return check_.compare(*parsed, text);
    }
    text.error(problem.begin, problem.end, problem.message, problem.hint);
    broken_ = true;
  }

  void check_uses() {
    if (broken_ || check_.broken() || claim_.statements.empty()) return;
    if (!check_.bad_margin().empty()) {
      diagnostics_.error(
          table_.find("margin")->place,
          fmt::format("{}: pp are percentage points of a share, but this claim is in {}", path_, check_.bad_margin()));
    }
    if (claim_.margin && !check_.strict()) {
      diagnostics_.error(table_.members.at("margin").key,
                         fmt::format("`margin` in {} belongs to `<` and `>`, and it has neither", path_));
    }
    if (!arms_known_) return;
    for (const auto& [key, place, axis] : own_axes_) {
      if (terms_.used_axes().count(axis) == 0)
        diagnostics_.error(place, fmt::format("`{}` in {}: none of its metrics varies along `{}`", key, path_, axis));
    }
    const Value* at = table_.find("at");
    for (const auto& [axis, label] : claim_.at) {
      if (terms_.used_axes().count(axis) == 0 && from_defaults_.count(at->members.at(axis).key) == 0) {
        diagnostics_.error(at->members.at(axis).key,
                           fmt::format("`at` in {} pins `{}`, and none of its metrics varies along that", path_, axis));
      }
    }
  }

  const Value& table_;
  const Place place_;
  const std::string path_;
  const bool arms_known_;
  Diagnostics& diagnostics_;
  const std::set<Place>& from_defaults_;
  const Recipe& recipe_;
  std::vector<std::tuple<std::string, Place, std::string>> own_axes_;  ///< key, place and axis of what the claim itself lists
  bool broken_ = false;
  Claim claim_;
  Terms terms_;
  StatementCheck check_;
};

}  // namespace

std::vector<Claim> read_claims(const Value& root, const std::set<Place>& from_defaults, const Recipe& recipe, bool arms_known,
                               Diagnostics& diagnostics) {
  std::vector<Claim> claims;
  const Measures measures(root, diagnostics);
  const auto found = root.members.find("claim");
  if (found == root.members.end()) return claims;
  if (!found->second.value.is_table()) {
    diagnostics.error(found->second.key, "[claim] is a table of claims: [claim.ID]");
    return claims;
  }
  for (const auto* entry : found->second.value.in_written_order()) {
    claims.push_back(ClaimReader(entry->first, entry->second, from_defaults, measures, recipe, arms_known, diagnostics).read());
  }
  return claims;
}

}  // namespace moiety::host
