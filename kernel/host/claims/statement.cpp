// Statements: sums with the comparisons between them, margins, trends along an axis.
#include <fmt/format.h>

#include <algorithm>

#include "kernel/base/text.h"
#include "kernel/host/claims/expression_parser.h"

namespace moiety::host {
namespace {

class StatementParser : private ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

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
      if (result.relations.empty() && trend(result)) {
        if (result.along.empty()) return std::nullopt;
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

 private:
  /// What stands behind a complete statement.
  std::nullopt_t rest(const ParsedStatement& result) {
    const std::string what = text_[at_] == ')' ? "`)` without its `(`" : fmt::format("`{}` is not expected here", next_word());
    const std::size_t length = std::max<std::size_t>(1, next_word().size());
    return problem(at_, at_ + length, what,
                   result.relations.empty() ? "" : "a claim is one comparison or a chain; several claims are a list");
  }

  bool add_sum(ParsedStatement& result) {
    Node node = sum();
    if (node == nullptr) return false;
    result.sums.push_back(std::move(node));
    return true;
  }

  /// "rises along steps": true when such a word stands here; `along` stays empty after a problem.
  bool trend(ParsedStatement& result) {
    for (const std::string_view form : {"rises", "falls", "peaks", "dips", "stays"}) {
      if (!word_ahead(form)) continue;
      at_ += form.size();
      result.relations.emplace_back(form);
      space();
      if (!word_ahead("along")) {
        problem(std::min(at_, text_.size() - 1), at_ + 1, fmt::format("behind `{}` stands `along` and an axis", form));
        return true;
      }
      at_ += 5;
      space();
      result.along_begin = at_;
      result.along = identifier();
      if (result.along.empty()) problem(std::min(at_, text_.size() - 1), at_ + 1, "the name of an axis is missing here");
      return true;
    }
    return false;
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
};

}  // namespace

std::optional<ParsedStatement> parse_statement(std::string_view text, ParseProblem& problem) {
  problem = {};
  return StatementParser(text, problem).statement();
}

}  // namespace moiety::host
