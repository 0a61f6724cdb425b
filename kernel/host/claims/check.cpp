#include "kernel/host/claims/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "kernel/base/text.h"
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
        terms_(recipe, measures, arms_known, claim_) {
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
    read_statements();
    check_uses();
    return std::move(claim_);
  }

 private:
  void check_keys() {
    const auto& known = fixed_tables().at("claim.<id>");
    static const std::set<std::string> later = {"equal", "explore"};
    for (const auto& [key, member] : table_.members) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      if (later.count(key) != 0) {
        diagnostics_.error(member.key, fmt::format("unknown key `{}` in {}: it is not known in this version", key, path_));
      } else {
        diagnostics_.error(member.key, fmt::format("unknown key `{}` in {}", key, path_), did_you_mean(key, known));
      }
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

  void read_statements() {
    const Value* that = table_.find("that");
    if (that == nullptr) {
      diagnostics_.error(place_, fmt::format("{} needs `that`: what it claims", path_));
      return;
    }
    const std::vector<Value> single = {*that};
    const bool list = that->is(Value::Type::array);
    if (list && that->items.empty()) diagnostics_.error(that->place, fmt::format("`that` in {} is an empty list", path_));
    for (const Value& item : list ? that->items : single) {
      if (!item.is_text()) {
        diagnostics_.error(item.place, fmt::format("`that` in {} must be text, but this is {}", path_, type_name(item.type)));
        continue;
      }
      claim_.that += (claim_.that.empty() ? "" : "; ") + item.text;
      const StatementText text(item, path_, diagnostics_);
      ParseProblem problem;
      const auto parsed = parse_statement(item.text, problem);
      if (!parsed) {
        text.error(problem.begin, problem.end, problem.message, problem.hint);
        broken_ = true;
      } else {
        check_statement(*parsed, text);
      }
    }
  }

  static Relation relation_of(const std::string& text) {
    static const std::map<std::string, Relation> relations = {
        {"<", Relation::less},      {">", Relation::greater},   {"<=", Relation::not_above}, {">=", Relation::not_below},
        {"~", Relation::about},     {"=", Relation::equal},     {"in", Relation::inside},    {"rises", Relation::rises},
        {"falls", Relation::falls}, {"peaks", Relation::peaks}, {"dips", Relation::dips},    {"stays", Relation::stays}};
    return relations.at(text);
  }

  static void check_margin(const Margin& margin, const std::string& unit, bool in_range, const StatementText& text) {
    if (margin.unit == Margin::Unit::points && !is_share(unit)) {
      text.error(margin.begin, margin.end, fmt::format("pp are percentage points of a share, but this is in {}", unit));
    } else if (margin.unit == Margin::Unit::percent && in_range) {
      text.error(margin.begin, margin.end, "`in` takes numbers or pp: per cent of what?");
    }
  }

  void check_statement(const ParsedStatement& parsed, const StatementText& text) {
    terms_.begin(parsed.along);
    std::vector<std::optional<Unit>> units;
    for (const auto& sum : parsed.sums) units.push_back(terms_.unit_of(*sum, text));
    for (const auto& unit : units) broken_ = broken_ || !unit;
    bool strict = false, loose = false;
    for (std::size_t i = 0; i < parsed.relations.size(); ++i) {
      ClaimStatement one;
      one.relation = relation_of(parsed.relations[i]);
      one.left = parsed.sums[i];
      const bool is_strict = one.relation == Relation::less || one.relation == Relation::greater;
      const bool is_loose =
          one.relation == Relation::not_above || one.relation == Relation::not_below || one.relation == Relation::about;
      const bool goes = one.relation >= Relation::rises;
      strict = strict || is_strict;
      loose = loose || is_loose;
      if (is_strict) one.by = parsed.by;
      if (is_loose) one.within = parsed.within;
      one.text = text.text();
      for (const auto& axis : claim_.quantified) {
        if (terms_.goes_over(axis) && axis != parsed.along) one.quantified.push_back(terms_.loop(axis));
      }
      if (goes) {
        check_along(parsed, units[0], one, text);
      } else if (one.relation == Relation::inside) {
        check_inside(parsed, units[0], one, text);
      } else {
        one.right = parsed.sums[i + 1];
        if (parsed.relations.size() > 1) one.text = link_text(parsed, i, one, text);
        check_comparison(one, units[i], units[i + 1], text);
      }
      claim_.statements.push_back(std::move(one));
    }
    strict_ = strict_ || strict;
    if (!parsed.along.empty()) return;
    if (parsed.by && !strict)
      text.error(parsed.by->begin, parsed.by->end, "`by` belongs to `<` and `>`; `<=`, `>=` and `~` take `within`");
    if (parsed.within && !loose)
      text.error(parsed.within->begin, parsed.within->end, "`within` belongs to `<=`, `>=` and `~`; `<` and `>` take `by`");
  }

  /// `x rises along g by m within n`: m of the whole way, n of a step.
  void check_along(const ParsedStatement& parsed, const std::optional<Unit>& unit, ClaimStatement& one,
                   const StatementText& text) {
    const std::size_t end = parsed.along_begin + parsed.along.size();
    one.by = parsed.by;
    one.within = parsed.within;
    one.along = terms_.loop(parsed.along);
    const bool extremum = one.relation == Relation::peaks || one.relation == Relation::dips;
    if (extremum && parsed.within)
      text.error(parsed.within->begin, parsed.within->end, "`peaks` and `dips` take `by`, not `within`");
    if (one.relation == Relation::stays && (!parsed.within || parsed.by))
      text.error(parsed.sums[0]->end, end, "`stays along` an axis needs `within` a margin, and takes no `by`");
    if (!unit) return;
    one.unit = unit->name;
    if (unit->plain) {
      text.error(parsed.sums[0]->begin, parsed.sums[0]->end, "this is a number, nothing measured");
      return;
    }
    if (!terms_.goes_over(parsed.along)) {
      text.error(parsed.along_begin, end, fmt::format("none of its metrics varies along `{}`", parsed.along));
      return;
    }
    const std::size_t needed = extremum ? 3 : 2;
    if (!one.along.labels.empty() && one.along.labels.size() < needed)
      text.error(parsed.along_begin, end,
                 fmt::format("`{}` has {} labels; `{}` needs at least {}", parsed.along, one.along.labels.size(),
                             parsed.relations[0], needed));
    if (one.by) check_margin(*one.by, one.unit, false, text);
    if (one.within) check_margin(*one.within, one.unit, false, text);
  }

  static std::string link_text(const ParsedStatement& parsed, std::size_t i, const ClaimStatement& one,
                               const StatementText& whole) {
    std::string text = whole.text().substr(parsed.sums[i]->begin, parsed.sums[i + 1]->end - parsed.sums[i]->begin);
    if (one.by) text += " by " + one.by->text();
    if (one.within) text += " within " + one.within->text();
    return text;
  }

  static void check_inside(const ParsedStatement& parsed, const std::optional<Unit>& unit, ClaimStatement& one,
                           const StatementText& text) {
    one.low = parsed.low;
    one.high = parsed.high;
    if (!unit) return;
    one.unit = unit->name;
    if (unit->plain) text.error(parsed.sums[0]->begin, parsed.sums[0]->end, "this is a number, nothing measured");
    check_margin(*one.low, unit->name, true, text);
    check_margin(*one.high, unit->name, true, text);
  }

  void check_comparison(ClaimStatement& one, const std::optional<Unit>& left, const std::optional<Unit>& right,
                        const StatementText& text) {
    const std::size_t begin = one.left->begin, end = one.right->end;
    const std::string sign = text.text().substr(one.left->end, one.right->begin - one.left->end);
    if ((one.relation == Relation::about || ((one.relation == Relation::not_above || one.relation == Relation::not_below) &&
                                             arms_known_ && left && right && !left->plain && !right->plain)) &&
        !one.within) {
      text.error(
          one.left->end, one.right->begin,
          fmt::format("`{}` between measured values needs `within` a margin, or nothing could ever decide it", trimmed(sign)));
    }
    if (!left || !right) return;
    if (left->plain && right->plain) {
      text.error(begin, end, "this compares two numbers, nothing measured");
      return;
    }
    one.unit = left->plain ? right->name : left->name;
    if (!left->plain && !right->plain && left->name != right->name) {
      text.error(begin, end, fmt::format("{} is not comparable with {}", left->name, right->name));
      return;
    }
    if (one.relation == Relation::equal && one.unit != "count") {
      text.error(begin, end, "`=` compares counts; measured values are compared by `~` … `within` a margin");
    }
    if (one.by) check_margin(*one.by, one.unit, false, text);
    if (one.within) check_margin(*one.within, one.unit, false, text);
    if (claim_.margin && claim_.margin->unit == Margin::Unit::points && !is_share(one.unit)) {
      diagnostics_.error(table_.find("margin")->place,
                         fmt::format("{}: pp are percentage points of a share, but this claim is in {}", path_, one.unit));
    }
  }

  static std::string trimmed(const std::string& text) {
    const auto begin = text.find_first_not_of(" )"), end = text.find_last_not_of(" (");
    return begin == std::string::npos ? text : text.substr(begin, end + 1 - begin);
  }

  void check_uses() {
    if (broken_ || claim_.statements.empty()) return;
    if (claim_.margin && !strict_) {
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
  bool broken_ = false, strict_ = false;
  Claim claim_;
  Terms terms_;
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
