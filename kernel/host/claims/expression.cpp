#include "kernel/host/claims/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "kernel/base/text.h"

namespace moiety::host {

std::string Margin::text() const { return number(value) + (unit == Unit::percent ? "%" : unit == Unit::points ? "pp" : ""); }

namespace {

constexpr int most_depth = 64;

bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool digit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  Parser(std::string_view text, ParseProblem& problem) : text_(text), problem_(problem) {}

  std::optional<ParsedStatement> statement() {
    ParsedStatement result;
    if (!add_sum(result)) return std::nullopt;
    for (;;) {
      space();
      if (word_ahead("in") && result.relations.empty()) {
        at_ += 2;
        result.relations.emplace_back("in");
        if (!range(result)) return std::nullopt;
        break;
      }
      const std::string relation = take_relation();
      if (relation.empty()) break;
      if (relation == "!=") return problem(at_ - 2, at_, "`!=` is no comparison of claims");
      result.relations.push_back(relation);
      if (!add_sum(result)) return std::nullopt;
    }
    if (!margins(result)) return std::nullopt;
    space();
    if (at_ < text_.size()) return rest(result);
    if (result.relations.empty())
      return problem(0, text_.size(), "a claim compares: `<`, `>`, `<=`, `>=`, `~`, `=` or `in` is missing");
    return result;
  }

  std::optional<Margin> margin() {
    space();
    Margin result;
    result.begin = at_;
    const bool negative = at_ < text_.size() && text_[at_] == '-';
    if (negative) ++at_;
    const auto value = number();
    if (!value) {
      problem(result.begin, std::min(text_.size(), result.begin + 1), "a number is missing here");
      return std::nullopt;
    }
    result.value = negative ? -*value : *value;
    if (text_.substr(at_, 1) == "%") {
      result.unit = Margin::Unit::percent;
      ++at_;
    } else if (points_ahead()) {
      result.unit = Margin::Unit::points;
      at_ += 2;
    }
    result.end = at_;
    return result;
  }

  bool at_end() {
    space();
    return at_ == text_.size();
  }

 private:
  using Node = std::shared_ptr<Expression>;

  std::nullopt_t problem(std::size_t begin, std::size_t end, std::string message, std::string hint = {}) {
    if (problem_.message.empty()) problem_ = {begin, std::max(end, begin + 1), std::move(message), std::move(hint)};
    return std::nullopt;
  }

  void space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }

  bool word_ahead(std::string_view word) const {
    if (text_.substr(at_, word.size()) != word) return false;
    const std::size_t end = at_ + word.size();
    return end >= text_.size() || !(letter(text_[end]) || digit(text_[end]) || text_[end] == '.' || text_[end] == '(');
  }

  bool points_ahead() const {
    return text_.substr(at_, 2) == "pp" && (at_ + 2 >= text_.size() || !(letter(text_[at_ + 2]) || digit(text_[at_ + 2])));
  }

  std::string take_relation() {
    for (const std::string_view relation : {"<=", ">=", "!=", "==", "<", ">", "~", "="}) {
      if (text_.substr(at_, relation.size()) != relation) continue;
      at_ += relation.size();
      return std::string(relation == "==" ? "=" : relation);
    }
    return {};
  }

  /// What stands behind a complete statement.
  std::nullopt_t rest(const ParsedStatement& result) {
    for (const std::string_view form : {"rises", "falls", "peaks", "dips", "stays"}) {
      if (word_ahead(form))
        return problem(at_, at_ + form.size(), fmt::format("`{} along` an axis is not known in this version", form));
    }
    const std::string what = text_[at_] == ')' ? "`)` without its `(`" : fmt::format("`{}` is not expected here", next_word());
    const std::size_t length = std::max<std::size_t>(1, next_word().size());
    return problem(at_, at_ + length, what,
                   result.relations.empty() ? "" : "a claim is one comparison or a chain; several claims are a list");
  }

  std::string next_word() const {
    std::size_t end = at_;
    while (end < text_.size() && text_[end] != ' ' && text_[end] != ')' && text_[end] != '(') ++end;
    return std::string(text_.substr(at_, std::max<std::size_t>(1, end - at_)));
  }

  bool add_sum(ParsedStatement& result) {
    Node node = sum();
    if (node == nullptr) return false;
    result.sums.push_back(std::move(node));
    return true;
  }

  bool range(ParsedStatement& result) {
    result.low = margin();
    if (!result.low) return false;
    space();
    if (text_.substr(at_, 2) != "..") {
      problem(at_, at_ + 1, "`in` needs a range: 0.4..0.6");
      return false;
    }
    at_ += 2;
    result.high = margin();
    if (!result.high) return false;
    if (result.low->value > result.high->value) {
      problem(result.low->begin, result.high->end, "the range is empty: its low end lies above its high end");
      return false;
    }
    return true;
  }

  bool margins(ParsedStatement& result) {
    for (;;) {
      space();
      auto* target = word_ahead("by") ? &result.by : word_ahead("within") ? &result.within : nullptr;
      if (target == nullptr) return true;
      const std::size_t begin = at_;
      at_ += target == &result.by ? 2 : 6;
      if (*target) {
        problem(begin, at_, target == &result.by ? "`by` stands twice" : "`within` stands twice");
        return false;
      }
      *target = margin();
      if (!*target) return false;
      if ((*target)->value < 0) {
        problem((*target)->begin, (*target)->end, "a margin is not negative");
        return false;
      }
    }
  }

  Node make(Expression::Kind kind, Node left, Node right, std::size_t begin) {
    auto node = std::make_shared<Expression>();
    node->kind = kind;
    node->left = std::move(left);
    node->right = std::move(right);
    node->begin = begin;
    node->end = at_;
    return node;
  }

  Node sum() {
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

  Node product() {
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

  Node term() {
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

  Node bracketed(std::size_t begin) {
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
    if (call && std::find(functions.begin(), functions.end(), name) != functions.end()) {
      problem(begin, at_, fmt::format("the function `{}` is not known in this version", name));
      return nullptr;
    }
    return metric(name, begin);
  }

  bool close() {
    space();
    if (text_.substr(at_, 1) == ")") {
      ++at_;
      return true;
    }
    if (word_ahead("over")) {
      problem(at_, at_ + 4, "`over` an axis is not known in this version");
    } else {
      problem(std::min(at_, text_.size() - 1), at_ + 1, "`)` is missing here");
    }
    return false;
  }

  Node metric(const std::string& first, std::size_t begin) {
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

  bool arguments(MetricTerm& term) {
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
      } else if (c == '!' || c == '*') {
        problem(begin, at_ + 1, fmt::format("pins with `{}` are not known in this version", c == '!' ? "!=" : "*"));
        return false;
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

  std::string identifier() {
    const std::size_t begin = at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      // A minus between letters belongs to the name: subtracting bare names needs spaces.
      const bool inner = c == '-' && at_ > begin && at_ + 1 < text_.size() && letter(text_[at_ + 1]);
      if (!letter(c) && !digit(c) && !inner) break;
      ++at_;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::optional<std::string> label() {
    const std::size_t begin = at_;
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      const std::size_t end = text_.find(text_[at_], at_ + 1);
      if (end == std::string_view::npos) return problem(begin, text_.size(), "the quote is not closed");
      at_ = end + 1;
      return std::string(text_.substr(begin + 1, end - begin - 1));
    }
    while (at_ < text_.size() &&
           (letter(text_[at_]) || digit(text_[at_]) || std::string_view(".+-%").find(text_[at_]) != std::string_view::npos))
      ++at_;
    if (at_ == begin) {
      return problem(std::min(begin, text_.size() - 1), begin + 1, "a name is missing here",
                     "names with other signs than letters, digits and _ . + - % stand in quotes");
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  /// Digits, a point with digits behind it, an exponent: `0..2` is two numbers.
  std::optional<double> number() {
    const std::size_t begin = at_;
    const auto digits = [&] {
      while (at_ < text_.size() && digit(text_[at_])) ++at_;
    };
    digits();
    if (at_ == begin) return std::nullopt;
    if (at_ + 1 < text_.size() && text_[at_] == '.' && digit(text_[at_ + 1])) {
      ++at_;
      digits();
    }
    if (at_ + 1 < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      const std::size_t sign = text_[at_ + 1] == '-' || text_[at_ + 1] == '+' ? 2 : 1;
      if (at_ + sign < text_.size() && digit(text_[at_ + sign])) {
        at_ += sign;
        digits();
      }
    }
    double value = 0;
    const auto result = std::from_chars(text_.data() + begin, text_.data() + at_, value);
    if (result.ec != std::errc()) return problem(begin, at_, "the number is too large");
    return value;
  }

  std::string_view text_;
  ParseProblem& problem_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<ParsedStatement> parse_statement(std::string_view text, ParseProblem& problem) {
  problem = {};
  return Parser(text, problem).statement();
}

std::optional<Margin> parse_margin(std::string_view text) {
  ParseProblem ignored;
  Parser parser(text, ignored);
  auto margin = parser.margin();
  return margin && parser.at_end() && margin->value >= 0 ? margin : std::nullopt;
}

}  // namespace moiety::host
