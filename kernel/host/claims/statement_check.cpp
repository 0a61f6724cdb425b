#include "kernel/host/claims/statement_check.h"

#include <fmt/format.h>

#include <map>
#include <string_view>
#include <vector>

#include "kernel/base/text.h"

namespace moiety::host {
namespace {

Relation relation_of(const std::string& text) {
  static const std::map<std::string, Relation> relations = {
      {"<", Relation::less},      {">", Relation::greater},   {"<=", Relation::not_above}, {">=", Relation::not_below},
      {"~", Relation::about},     {"=", Relation::equal},     {"in", Relation::inside},    {"rises", Relation::rises},
      {"falls", Relation::falls}, {"peaks", Relation::peaks}, {"dips", Relation::dips},    {"stays", Relation::stays}};
  return relations.at(text);
}

bool is_strict(Relation relation) { return relation == Relation::less || relation == Relation::greater; }
bool is_loose(Relation relation) {
  return relation == Relation::not_above || relation == Relation::not_below || relation == Relation::about;
}

/// `1.1 * x`: the factor is a margin of its own.
bool is_scaled(const Expression& node) {
  const auto is_number = [](const Expression& part) { return part.kind == Expression::Kind::number && part.number != 1; };
  return (node.kind == Expression::Kind::product && (is_number(*node.left) || is_number(*node.right))) ||
         (node.kind == Expression::Kind::quotient && is_number(*node.right));
}

void check_margin(const Margin& margin, const std::string& unit, bool in_range, const StatementText& text) {
  if (margin.unit == Margin::Unit::points && !is_share(unit)) {
    text.error(margin.begin, margin.end, fmt::format("pp are percentage points of a share, but this is in {}", unit));
  } else if (margin.unit == Margin::Unit::percent && in_range) {
    text.error(margin.begin, margin.end, "`in` takes numbers or pp: per cent of what?");
  }
}

std::string link_text(const ParsedStatement& parsed, std::size_t i, const ClaimStatement& one, const StatementText& whole) {
  std::string text = whole.text().substr(parsed.sums[i]->begin, parsed.sums[i + 1]->end - parsed.sums[i]->begin);
  if (one.by) text += " by " + one.by->text();
  if (one.within) text += " within " + one.within->text();
  return text;
}

void check_inside(const ParsedStatement& parsed, const std::optional<Unit>& unit, ClaimStatement& one,
                  const StatementText& text) {
  one.low = parsed.low;
  one.high = parsed.high;
  if (!unit) return;
  one.unit = unit->name;
  one.counts = unit->exact;
  if (unit->plain) text.error(parsed.sums[0]->begin, parsed.sums[0]->end, "this is a number, nothing measured");
  check_margin(*one.low, unit->name, true, text);
  check_margin(*one.high, unit->name, true, text);
}

/// The sign between two sums, without the brackets around them.
std::string sign_between(const std::string& text) {
  const auto begin = text.find_first_not_of(" )"), end = text.find_last_not_of(" (");
  return begin == std::string::npos ? text : text.substr(begin, end + 1 - begin);
}

}  // namespace

void StatementCheck::quantify(ClaimStatement& one, const std::string& along) {
  for (const auto& axis : claim_.quantified) {
    if (terms_.goes_over(axis) && axis != along) one.quantified.push_back(terms_.loop(axis));
  }
}

void StatementCheck::explore(const std::shared_ptr<Expression>& expression, const StatementText& text) {
  terms_.begin("");
  ClaimStatement one;
  one.text = text.text();
  one.relation = Relation::reported;
  one.left = expression;
  const auto unit = terms_.unit_of(*expression, text);
  terms_.end();
  broken_ = broken_ || !unit;
  if (unit && unit->plain) text.error(expression->begin, expression->end, "this is a number, nothing measured");
  if (unit) one.unit = unit->name;
  if (unit) one.counts = unit->exact;
  quantify(one, "");
  claim_.statements.push_back(std::move(one));
}

void StatementCheck::compare(const ParsedStatement& parsed, const StatementText& text) {
  terms_.begin(parsed.along);
  std::vector<std::optional<Unit>> units;
  for (const auto& sum : parsed.sums) units.push_back(terms_.unit_of(*sum, text));
  terms_.end();
  for (const auto& unit : units) broken_ = broken_ || !unit;
  bool strict = false, loose = false;
  for (std::size_t i = 0; i < parsed.relations.size(); ++i) {
    ClaimStatement one;
    one.relation = relation_of(parsed.relations[i]);
    one.left = parsed.sums[i];
    strict = strict || is_strict(one.relation);
    loose = loose || is_loose(one.relation);
    if (is_strict(one.relation)) one.by = parsed.by;
    if (is_loose(one.relation)) one.within = parsed.within;
    one.text = text.text();
    quantify(one, parsed.along);
    if (one.relation >= Relation::rises) {
      along(parsed, units[0], one, text);
    } else if (one.relation == Relation::inside) {
      check_inside(parsed, units[0], one, text);
    } else {
      one.right = parsed.sums[i + 1];
      if (parsed.relations.size() > 1) one.text = link_text(parsed, i, one, text);
      comparison(one, units[i], units[i + 1], text);
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
void StatementCheck::along(const ParsedStatement& parsed, const std::optional<Unit>& unit, ClaimStatement& one,
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
  one.counts = unit->exact;
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

void StatementCheck::comparison(ClaimStatement& one, const std::optional<Unit>& left, const std::optional<Unit>& right,
                                const StatementText& text) {
  const std::size_t begin = one.left->begin, end = one.right->end;
  const std::string sign = text.text().substr(one.left->end, one.right->begin - one.left->end);
  const bool two_measured = arms_known_ && left && right && !left->plain && !right->plain && !(left->exact && right->exact) &&
                            !is_scaled(*one.left) && !is_scaled(*one.right);
  if ((one.relation == Relation::about || (is_loose(one.relation) && two_measured)) && !one.within) {
    text.error(
        one.left->end, one.right->begin,
        fmt::format("`{}` between measured values needs `within` a margin, or nothing could ever decide it", sign_between(sign)));
  }
  if (!left || !right) return;
  if (left->plain && right->plain) {
    text.error(begin, end, "this compares two numbers, nothing measured");
    return;
  }
  one.unit = left->plain ? right->name : left->name;
  one.counts = (left->plain || left->exact) && (right->plain || right->exact);
  if (!left->plain && !right->plain && left->name != right->name) {
    text.error(begin, end, fmt::format("{} is not comparable with {}", left->name, right->name));
    return;
  }
  if (one.relation == Relation::equal && !one.counts && one.unit != "count")
    text.error(begin, end, "`=` compares counts; measured values are compared by `~` … `within` a margin");
  if (one.by) check_margin(*one.by, one.unit, false, text);
  if (one.within) check_margin(*one.within, one.unit, false, text);
  if (claim_.margin && claim_.margin->unit == Margin::Unit::points && !is_share(one.unit)) bad_margin_ = one.unit;
}

}  // namespace moiety::host
