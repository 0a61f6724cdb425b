#include "kernel/host/claims/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "kernel/base/text.h"
#include "kernel/host/recipe/homes.h"
#include "kernel/host/recipe/recipe.h"

namespace moiety::host {
namespace {

/// A unit as text, or that of a plain number, which goes with any.
struct Unit {
  bool plain = true;
  std::string name;
};

bool is_share(const std::string& unit) { return unit == "share" || unit == "fraction" || unit == "accuracy"; }

std::string scalar_text(const Value& value) {
  return value.is_text()                  ? value.text
         : value.is(Value::Type::integer) ? std::to_string(value.integer)
         : value.is(Value::Type::number)  ? number(value.number)
                                          : "";
}

class ClaimReader {
 public:
  ClaimReader(const std::string& id, const Member& member, const Recipe& recipe, bool arms_known, Diagnostics& diagnostics)
      : table_(member.value),
        place_(member.key),
        path_("claim." + id),
        recipe_(recipe),
        arms_known_(arms_known),
        diagnostics_(diagnostics) {
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
    if (by == "all seeds") {
      diagnostics_.error(table_.find("by")->place,
                         fmt::format("`by` in {}: \"all seeds\" is not known in this version; \"interval\" is", path_));
    } else if (!by.empty() && by != "interval") {
      diagnostics_.error(table_.find("by")->place, fmt::format("`by` in {} must be \"interval\"", path_));
    }
    read_margin();
    read_at();
    read_statements();
    check_uses();
    return std::move(claim_);
  }

 private:
  void check_keys() {
    const auto& known = fixed_tables().at("claim.<id>");
    static const std::set<std::string> later = {"every", "most", "some", "mean", "equal", "explore"};
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
      text_ = &item;
      ParseProblem problem;
      const auto parsed = parse_statement(item.text, problem);
      if (!parsed) {
        error(problem.begin, problem.end, problem.message, problem.hint);
        broken_ = true;
      } else {
        check_statement(*parsed);
      }
    }
  }

  /// The place of some bytes of the text: exact where the text stands on one line as it is, else the whole value.
  Place inside(std::size_t begin, std::size_t end) const {
    Place place = text_->place;
    if (!place.known() || place.line < 1) return place;
    const auto& lines = diagnostics_.sources()[place.source].lines;
    if (static_cast<std::size_t>(place.line) > lines.size()) return place;
    const std::string& line = lines[static_cast<std::size_t>(place.line) - 1];
    std::size_t offset = 0;
    for (int column = 1; column < place.column && offset < line.size(); ++column) {
      ++offset;
      while (offset < line.size() && (static_cast<unsigned char>(line[offset]) & 0xC0U) == 0x80) ++offset;
    }
    const std::size_t quote = offset < line.size() && (line[offset] == '"' || line[offset] == '\'') ? 1 : 0;
    if (line.compare(offset + quote, text_->text.size(), text_->text) != 0) return place;
    const std::string_view text = text_->text;
    begin = std::min(begin, text.size());
    place.column += static_cast<int>(quote + width(text.substr(0, begin)));
    place.length = static_cast<int>(std::max<std::size_t>(1, width(text.substr(begin, std::min(end, text.size()) - begin))));
    return place;
  }

  void error(std::size_t begin, std::size_t end, const std::string& message, const std::string& hint = {},
             const std::string& reference = {}) {
    const Place place = inside(begin, end);
    std::vector<std::string> notes;
    if (place == text_->place && place.length == text_->place.length && begin > 0)
      notes.push_back("here: " + text_->text.substr(begin, end - begin));
    diagnostics_.error(place, fmt::format("{}: {}", path_, message), hint, reference, notes);
  }

  // --- terms -----------------------------------------------------------------------------------------------------------------

  const RecipeArm* arm_of(MetricTerm& term) {
    std::vector<std::string> names;
    for (const auto& arm : recipe_.arms) names.push_back(arm.name);
    if (term.arm.empty() && recipe_.arms.size() == 1) term.arm = names[0];
    if (term.arm.empty()) {
      error(term.begin, term.end,
            fmt::format("`{}` needs an arm, as in {}({}): the recipe has several", term.name, term.name,
                        names.empty() ? "ARM" : names[0]));
      return nullptr;
    }
    const RecipeArm* arm = recipe_.arm(term.arm);
    if (arm == nullptr)
      error(term.begin, term.end, fmt::format("unknown arm `{}`", term.arm), did_you_mean(term.arm, names),
            names.size() <= 8 ? "arms: " + join(names, ", ") : "");
    return arm;
  }

  static const OutputDeclaration* metric_of(const RecipeStage& stage, const std::string& name) {
    for (const auto& metric : stage.verb->metrics) {
      if (metric.name == name && metric.exists(stage.config)) return &metric;
    }
    return nullptr;
  }

  static std::vector<std::string> metrics_of(const RecipeStage& stage) {
    std::vector<std::string> names;
    for (const auto& metric : stage.verb->metrics) {
      if (metric.exists(stage.config)) names.push_back(metric.name);
    }
    return names;
  }

  const RecipeStage* stage_of(MetricTerm& term, const RecipeArm& arm) {
    if (!term.stage.empty()) {
      const RecipeStage* stage = arm.stage(term.stage);
      std::vector<std::string> names;
      for (const auto& one : arm.stages) names.push_back(one.name);
      if (stage == nullptr) {
        error(term.begin, term.end, fmt::format("arm `{}` has no stage `{}`", arm.name, term.stage),
              did_you_mean(term.stage, names), "stages: " + join(names, ", "));
      } else if (metric_of(*stage, term.name) == nullptr) {
        const auto metrics = metrics_of(*stage);
        error(term.begin, term.end, fmt::format("stage.{} ({}) has no metric `{}`", stage->name, stage->verb->name, term.name),
              did_you_mean(term.name, metrics), metrics.empty() ? "it has none" : "metrics: " + join(metrics, ", "));
        stage = nullptr;
      }
      return stage;
    }
    std::vector<const RecipeStage*> found;
    std::set<std::string> names;
    for (const auto& stage : arm.stages) {
      if (!stage.verb->measures) continue;
      if (metric_of(stage, term.name) != nullptr) found.push_back(&stage);
      for (const auto& name : metrics_of(stage)) names.insert(name);
    }
    if (found.size() == 1) {
      term.stage = found[0]->name;
      return found[0];
    }
    if (names.empty()) return nullptr;  // an arm that measures nothing is told where it is written
    if (found.empty()) {
      const std::vector<std::string> list(names.begin(), names.end());
      error(term.begin, term.end, fmt::format("no measuring stage of arm `{}` has a metric `{}`", arm.name, term.name),
            did_you_mean(term.name, list), list.empty() ? "" : "metrics: " + join(list, ", "));
    } else {
      std::vector<std::string> both;
      for (const auto* stage : found) both.push_back(stage->name + "." + term.name);
      error(term.begin, term.end,
            fmt::format("`{}` is measured by several stages of arm `{}`: write {}", term.name, arm.name, join(both, " or ")));
    }
    return nullptr;
  }

  /// Labels that the stage's text gives an axis; empty when only the data know them.
  static std::vector<std::string> labels_of(const RecipeStage& stage, const std::string& axis) {
    const nlohmann::json* at = nullptr;
    if (axis == "set" && stage.config.contains("on")) at = &stage.config.at("on");
    if (axis == "domain" && stage.config.contains("data") && stage.config.at("data").contains("domains"))
      at = &stage.config.at("data").at("domains");
    std::vector<std::string> labels;
    if (at == nullptr || !at->is_array()) return labels;
    for (const auto& label : *at) {
      if (label.is_string()) labels.push_back(label.get<std::string>());
    }
    return labels;
  }

  void pin(MetricTerm& term, const RecipeStage& stage, const OutputDeclaration& metric) {
    for (const auto& [axis, label] : term.pins) {
      if (std::find(metric.axes.begin(), metric.axes.end(), axis) == metric.axes.end()) {
        error(term.begin, term.end, fmt::format("`{}` of stage.{} does not vary along `{}`", metric.name, stage.name, axis),
              did_you_mean(axis, metric.axes), metric.axes.empty() ? "it has no axes" : "axes: " + join(metric.axes, ", "));
      }
    }
    for (const auto& axis : metric.axes) {
      const auto labels = labels_of(stage, axis);
      const auto common = claim_.at.find(axis);
      if (common != claim_.at.end()) {
        used_pins_.insert(axis);
        term.pins.emplace(axis, common->second);
      }
      const auto pinned = term.pins.find(axis);
      if (pinned != term.pins.end()) {
        if (!labels.empty() && std::find(labels.begin(), labels.end(), pinned->second) == labels.end()) {
          error(term.begin, term.end, fmt::format("axis `{}` of stage.{} has no label `{}`", axis, stage.name, pinned->second),
                did_you_mean(pinned->second, labels), "labels: " + join(labels, ", "));
        }
      } else if (labels.size() == 1) {
        term.pins[axis] = labels[0];
      } else if (axis != "domain") {
        error(
            term.begin, term.end,
            fmt::format("`{}` of stage.{} varies along `{}`{}: pin it, as in at = {{ {} = \"{}\" }}", metric.name, stage.name,
                        axis, labels.empty() ? "" : " (" + join(labels, ", ") + ")", axis, labels.empty() ? "LABEL" : labels[0]));
      }
    }
  }

  std::optional<Unit> term_unit(MetricTerm& term) {
    const RecipeArm* arm = arm_of(term);
    if (arm == nullptr || !arms_known_) return std::nullopt;
    const RecipeStage* stage = stage_of(term, *arm);
    if (stage == nullptr) return std::nullopt;
    const OutputDeclaration& metric = *metric_of(*stage, term.name);
    pin(term, *stage, metric);
    return Unit{false, metric.unit.empty() ? metric.name : metric.unit};
  }

  /// Nothing after an error was told.
  std::optional<Unit> unit_of(Expression& node) {
    switch (node.kind) {
      case Expression::Kind::number:
        return Unit{};
      case Expression::Kind::metric:
        return term_unit(node.metric);
      case Expression::Kind::absolute:
        return unit_of(*node.left);
      default:
        break;
    }
    const auto left = unit_of(*node.left), right = unit_of(*node.right);
    if (!left || !right) return std::nullopt;
    if (node.kind == Expression::Kind::product || node.kind == Expression::Kind::quotient) {
      if (right->plain) return left;
      if (node.kind == Expression::Kind::product) return left->plain ? right : Unit{false, left->name + "·" + right->name};
      if (!left->plain && left->name == right->name) return Unit{false, "ratio"};
      return Unit{false, (left->plain ? "1" : left->name) + "/" + right->name};
    }
    if (left->plain) return right;
    if (!right->plain && left->name != right->name) {
      error(node.begin, node.end, fmt::format("{} and {} cannot be added or subtracted", left->name, right->name));
      return std::nullopt;
    }
    return left;
  }

  // --- statements ------------------------------------------------------------------------------------------------------------

  static Relation relation_of(const std::string& text) {
    static const std::map<std::string, Relation> relations = {
        {"<", Relation::less},  {">", Relation::greater}, {"<=", Relation::not_above}, {">=", Relation::not_below},
        {"~", Relation::about}, {"=", Relation::equal},   {"in", Relation::inside}};
    return relations.at(text);
  }

  void check_margin(const Margin& margin, const std::string& unit, bool in_range) {
    if (margin.unit == Margin::Unit::points && !is_share(unit)) {
      error(margin.begin, margin.end, fmt::format("pp are percentage points of a share, but this is in {}", unit));
    } else if (margin.unit == Margin::Unit::percent && in_range) {
      error(margin.begin, margin.end, "`in` takes numbers or pp: per cent of what?");
    }
  }

  void check_statement(const ParsedStatement& parsed) {
    std::vector<std::optional<Unit>> units;
    for (const auto& sum : parsed.sums) units.push_back(unit_of(*sum));
    bool strict = false, loose = false;
    for (std::size_t i = 0; i < parsed.relations.size(); ++i) {
      ClaimStatement one;
      one.relation = relation_of(parsed.relations[i]);
      one.left = parsed.sums[i];
      const bool is_strict = one.relation == Relation::less || one.relation == Relation::greater;
      const bool is_loose =
          one.relation == Relation::not_above || one.relation == Relation::not_below || one.relation == Relation::about;
      strict = strict || is_strict;
      loose = loose || is_loose;
      if (is_strict) one.by = parsed.by;
      if (is_loose) one.within = parsed.within;
      one.text = text_->text;
      if (one.relation == Relation::inside) {
        check_inside(parsed, units[0], one);
      } else {
        one.right = parsed.sums[i + 1];
        if (parsed.relations.size() > 1) one.text = link_text(parsed, i, one);
        check_comparison(one, units[i], units[i + 1]);
      }
      claim_.statements.push_back(std::move(one));
    }
    strict_ = strict_ || strict;
    if (parsed.by && !strict)
      error(parsed.by->begin, parsed.by->end, "`by` belongs to `<` and `>`; `<=`, `>=` and `~` take `within`");
    if (parsed.within && !loose)
      error(parsed.within->begin, parsed.within->end, "`within` belongs to `<=`, `>=` and `~`; `<` and `>` take `by`");
  }

  std::string link_text(const ParsedStatement& parsed, std::size_t i, const ClaimStatement& one) const {
    std::string text = text_->text.substr(parsed.sums[i]->begin, parsed.sums[i + 1]->end - parsed.sums[i]->begin);
    if (one.by) text += " by " + one.by->text();
    if (one.within) text += " within " + one.within->text();
    return text;
  }

  void check_inside(const ParsedStatement& parsed, const std::optional<Unit>& unit, ClaimStatement& one) {
    one.low = parsed.low;
    one.high = parsed.high;
    if (!unit) return;
    one.unit = unit->name;
    if (unit->plain) error(parsed.sums[0]->begin, parsed.sums[0]->end, "this is a number, nothing measured");
    check_margin(*one.low, unit->name, true);
    check_margin(*one.high, unit->name, true);
  }

  void check_comparison(ClaimStatement& one, const std::optional<Unit>& left, const std::optional<Unit>& right) {
    const std::size_t begin = one.left->begin, end = one.right->end;
    const std::string sign = text_->text.substr(one.left->end, one.right->begin - one.left->end);
    if ((one.relation == Relation::about || ((one.relation == Relation::not_above || one.relation == Relation::not_below) &&
                                             arms_known_ && left && right && !left->plain && !right->plain)) &&
        !one.within) {
      error(one.left->end, one.right->begin,
            fmt::format("`{}` between measured values needs `within` a margin, or nothing could ever decide it", trimmed(sign)));
    }
    if (!left || !right) return;
    if (left->plain && right->plain) {
      error(begin, end, "this compares two numbers, nothing measured");
      return;
    }
    one.unit = left->plain ? right->name : left->name;
    if (!left->plain && !right->plain && left->name != right->name) {
      error(begin, end, fmt::format("{} is not comparable with {}", left->name, right->name));
      return;
    }
    if (one.relation == Relation::equal && one.unit != "count") {
      error(begin, end, "`=` compares counts; measured values are compared by `~` … `within` a margin");
    }
    if (one.by) check_margin(*one.by, one.unit, false);
    if (one.within) check_margin(*one.within, one.unit, false);
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
    const Value* at = table_.find("at");
    for (const auto& [axis, label] : claim_.at) {
      if (used_pins_.count(axis) == 0) {
        diagnostics_.error(at->members.at(axis).key,
                           fmt::format("`at` in {} pins `{}`, and none of its metrics varies along that", path_, axis));
      }
    }
  }

  const Value& table_;
  const Place place_;
  const std::string path_;
  const Recipe& recipe_;
  const bool arms_known_;
  Diagnostics& diagnostics_;
  const Value* text_ = nullptr;
  bool broken_ = false, strict_ = false;
  std::set<std::string> used_pins_;
  Claim claim_;
};

}  // namespace

std::vector<Claim> read_claims(const Value& root, const Recipe& recipe, bool arms_known, Diagnostics& diagnostics) {
  std::vector<Claim> claims;
  const auto found = root.members.find("claim");
  if (found == root.members.end()) return claims;
  if (!found->second.value.is_table()) {
    diagnostics.error(found->second.key, "[claim] is a table of claims: [claim.ID]");
    return claims;
  }
  for (const auto* entry : found->second.value.in_written_order()) {
    claims.push_back(ClaimReader(entry->first, entry->second, recipe, arms_known, diagnostics).read());
  }
  return claims;
}

}  // namespace moiety::host
