#include "kernel/host/claims/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kernel/base/text.h"
#include "kernel/host/claims/expression_parser.h"

namespace moiety::host {

std::string Margin::text() const { return number(value) + (unit == Unit::percent ? "%" : unit == Unit::points ? "pp" : ""); }

namespace {

constexpr int most_depth = 64;

}  // namespace

std::shared_ptr<Expression> ExpressionParser::expression() {
  auto node = sum();
  space();
  if (node != nullptr && at_ < text_.size()) {
    problem(at_, at_ + next_word().size(), fmt::format("`{}` is not expected here: a measure compares nothing", next_word()));
    return nullptr;
  }
  return node;
}

ExpressionParser::Node ExpressionParser::make(Expression::Kind kind, Node left, Node right, std::size_t begin) {
  auto node = std::make_shared<Expression>();
  node->kind = kind;
  node->left = std::move(left);
  node->right = std::move(right);
  node->begin = begin;
  node->end = at_;
  return node;
}

ExpressionParser::Node ExpressionParser::sum() {
  space();
  const std::size_t begin = at_;
  Node node = product();
  while (node != nullptr) {
    const std::size_t before = at_;
    space();
    const char sign = at_ < text_.size() ? text_[at_] : '\0';
    if (sign != '+' && sign != '-') {
      at_ = before;
      break;
    }
    ++at_;
    Node right = product();
    if (right == nullptr) return nullptr;
    node = make(sign == '+' ? Expression::Kind::sum : Expression::Kind::difference, std::move(node), std::move(right), begin);
  }
  return node;
}

ExpressionParser::Node ExpressionParser::product() {
  space();
  const std::size_t begin = at_;
  Node node = term();
  while (node != nullptr) {
    const std::size_t before = at_;
    space();
    const char sign = at_ < text_.size() ? text_[at_] : '\0';
    if (sign != '*' && sign != '/') {
      at_ = before;
      break;
    }
    ++at_;
    Node right = term();
    if (right == nullptr) return nullptr;
    node = make(sign == '*' ? Expression::Kind::product : Expression::Kind::quotient, std::move(node), std::move(right), begin);
  }
  return node;
}

ExpressionParser::Node ExpressionParser::term() {
  space();
  const std::size_t begin = at_;
  if (at_ >= text_.size()) {
    problem(begin == 0 ? 0 : begin - 1, begin, "a metric or a number is missing at the end");
    return nullptr;
  }
  if (++depth_ > most_depth) {
    problem(begin, begin + 1, "brackets are nested too deeply");
    return nullptr;
  }
  Node node = bracketed(begin);
  --depth_;
  return node;
}

ExpressionParser::Node ExpressionParser::bracketed(std::size_t begin) {
  const char c = text_[at_];
  if (c == '(') {
    ++at_;
    Node node = sum();
    return node != nullptr && close() ? node : nullptr;
  }
  if (digit(c)) {
    const auto value = number();
    if (!value) return nullptr;
    if (text_.substr(at_, 1) == "%" || points_ahead()) {
      problem(begin, at_ + 1, "`%` and `pp` stand only behind `by`, `within` and `in`");
      return nullptr;
    }
    Node node = make(Expression::Kind::number, nullptr, nullptr, begin);
    node->number = *value;
    return node;
  }
  if (!letter(c)) {
    problem(begin, begin + 1,
            fmt::format("`{}` is not expected here: a metric or a number is", printable(text_.substr(begin, 1))));
    return nullptr;
  }
  const std::string name = identifier();
  const bool call = text_.substr(at_, 1) == "(";
  if (name == "abs" && call) {
    ++at_;
    Node inner = sum();
    if (inner == nullptr || !close()) return nullptr;
    return make(Expression::Kind::absolute, std::move(inner), nullptr, begin);
  }
  static constexpr std::array<std::string_view, 9> functions = {"spearman", "kendall", "agree",    "best", "worst",
                                                                "mean",     "spread",  "exponent", "rank"};
  if (call && std::find(functions.begin(), functions.end(), name) != functions.end()) return function(name, begin);
  return metric(name, begin);
}

ExpressionParser::Node ExpressionParser::function(const std::string& name, std::size_t begin) {
  ++at_;
  Node left = sum(), right;
  if (left == nullptr) return nullptr;
  space();
  if (name == "spearman" || name == "kendall" || name == "agree") {
    if (text_.substr(at_, 1) != ",") {
      problem(std::min(at_, text_.size() - 1), at_ + 1, fmt::format("`{}` takes two expressions: a comma is missing here", name));
      return nullptr;
    }
    ++at_;
    right = sum();
    if (right == nullptr) return nullptr;
    space();
  }
  auto node = std::make_shared<Expression>();
  if (!over(*node)) return nullptr;
  if (!close()) return nullptr;
  node->kind = Expression::Kind::function;
  node->function = name;
  node->left = std::move(left);
  node->right = std::move(right);
  node->begin = begin;
  node->end = at_;
  return node;
}

bool ExpressionParser::over(Expression& node) {
  if (!word_ahead("over")) {
    problem(std::min(at_, text_.size() - 1), at_ + 1, "`over` and an axis are missing here");
    return false;
  }
  at_ += 4;
  for (;;) {
    space();
    const std::string axis = identifier();
    if (axis.empty()) {
      problem(std::min(at_, text_.size() - 1), at_ + 1, "the name of an axis is missing here");
      return false;
    }
    node.over.push_back(axis);
    space();
    if (text_.substr(at_, 1) != ",") break;
    ++at_;
  }
  return !word_ahead("where") || where(node);
}

bool ExpressionParser::where(Expression& node) {
  at_ += 5;
  space();
  const std::size_t begin = at_;
  const std::string name = at_ < text_.size() && letter(text_[at_]) ? identifier() : "";
  if (name.empty()) {
    problem(std::min(begin, text_.size() - 1), begin + 1, "behind `where` stands a metric");
    return false;
  }
  node.where_metric = metric(name, begin);
  if (node.where_metric == nullptr) return false;
  space();
  const std::string relation = take_relation();
  space();
  const bool negative = text_.substr(at_, 1) == "-";
  if (negative) ++at_;
  const auto value = number();
  if ((relation != "<" && relation != ">") || !value) {
    problem(begin, at_, "`where` compares a metric with a number: where p < 0.05");
    return false;
  }
  node.where_below = relation == "<";
  node.where_number = negative ? -*value : *value;
  return true;
}

bool ExpressionParser::close() {
  space();
  if (text_.substr(at_, 1) == ")") {
    ++at_;
    return true;
  }
  if (word_ahead("over")) {
    problem(at_, at_ + 4, "`over` belongs to a function: mean(… over axis)");
  } else {
    problem(std::min(at_, text_.size() - 1), at_ + 1, "`)` is missing here");
  }
  return false;
}

ExpressionParser::Node ExpressionParser::metric(const std::string& first, std::size_t begin) {
  MetricTerm term;
  term.begin = begin;
  term.name = first;
  if (text_.substr(at_, 1) == ".") {
    ++at_;
    term.stage = first;
    term.name = identifier();
    if (term.name.empty()) {
      problem(begin, at_, fmt::format("the name of a metric is missing behind `{}.`", first));
      return nullptr;
    }
  }
  term.end = at_;
  if (text_.substr(at_, 1) == "(" && !arguments(term)) return nullptr;
  Node node = make(Expression::Kind::metric, nullptr, nullptr, begin);
  node->metric = std::move(term);
  return node;
}

bool ExpressionParser::arguments(MetricTerm& term) {
  ++at_;
  for (bool first = true;; first = false) {
    space();
    const std::size_t begin = at_;
    if (first && text_.substr(at_, 1) == ")") break;
    const auto word = label();
    if (!word) return false;
    space();
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (c == '=') {
      ++at_;
      space();
      const auto value = label();
      if (!value) return false;
      if (!term.pins.emplace(*word, *value).second) {
        problem(begin, at_, fmt::format("`{}` is pinned twice", *word));
        return false;
      }
    } else if (text_.substr(at_, 2) == "!=") {
      at_ += 2;
      space();
      const auto value = label();
      if (!value) return false;
      if (!term.excluded.emplace(*word, *value).second) {
        problem(begin, at_, fmt::format("`{}` is pinned twice", *word));
        return false;
      }
    } else if (c == '*') {
      if (!times(term, *word, begin)) return false;
    } else if (first) {
      term.arm = *word;
    } else {
      problem(begin, at_, "behind the arm stand pins: axis=label");
      return false;
    }
    space();
    if (text_.substr(at_, 1) != ",") break;
    ++at_;
  }
  return close();
}

/// `axis*50`: what stands along the axis counts fifty times.
bool ExpressionParser::times(MetricTerm& term, const std::string& axis, std::size_t begin) {
  ++at_;
  space();
  const std::size_t number_begin = at_;
  const auto value = number();
  if (!value || *value <= 0) {
    problem(std::min(number_begin, text_.size() - 1), std::max(at_, number_begin + 1),
            fmt::format("behind `{}*` stands a number above 0", axis));
    return false;
  }
  if (term.times.emplace(axis, *value).second) return true;
  problem(begin, at_, fmt::format("`{}` is multiplied twice", axis));
  return false;
}

std::shared_ptr<Expression> parse_expression(std::string_view text, ParseProblem& problem) {
  problem = {};
  return ExpressionParser(text, problem).expression();
}

std::shared_ptr<Expression> clone(const Expression& node) {
  auto copy = std::make_shared<Expression>(node);
  for (auto* part : {&copy->left, &copy->right, &copy->where_metric}) {
    if (*part != nullptr) *part = clone(**part);
  }
  return copy;
}

std::optional<Margin> parse_margin(std::string_view text) {
  ParseProblem ignored;
  Scanner scanner(text, ignored);
  auto margin = scanner.margin();
  return margin && scanner.at_end() && margin->value >= 0 ? margin : std::nullopt;
}

}  // namespace moiety::host
