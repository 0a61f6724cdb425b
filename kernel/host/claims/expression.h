// The grammar of `that`: sums and products of numbers and metrics, and the comparisons between them.
#ifndef MOIETY_KERNEL_HOST_CLAIMS_EXPRESSION_H_
#define MOIETY_KERNEL_HOST_CLAIMS_EXPRESSION_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moiety::host {

/// A size of difference: in the metric's unit, in per cent of the right side, or in percentage points of a share.
struct Margin {
  double value = 0;
  enum class Unit { plain, percent, points } unit = Unit::plain;
  std::size_t begin = 0, end = 0;  ///< bytes in the text

  std::string text() const;
};

/// `[stage.]name[(arm, axis=label, …)]`. Stage and arm are filled in by the check where they were left out.
struct MetricTerm {
  std::string stage, name, arm;
  std::map<std::string, std::string> pins;
  std::size_t begin = 0, end = 0;
};

struct Expression {
  enum class Kind { number, metric, sum, difference, product, quotient, absolute } kind = Kind::number;
  double number = 0;
  MetricTerm metric;
  std::shared_ptr<Expression> left, right;
  std::size_t begin = 0, end = 0;  ///< bytes in the text
};

/// A chain of sums with the comparisons between them.
struct ParsedStatement {
  std::vector<std::shared_ptr<Expression>> sums;
  std::vector<std::string> relations;  ///< one fewer than sums; or a single "in"
  std::optional<Margin> by, within, low, high;
};

struct ParseProblem {
  std::size_t begin = 0, end = 0;  ///< bytes in the text
  std::string message, hint;
};

/// Nothing and a problem when the text is no statement of the grammar.
std::optional<ParsedStatement> parse_statement(std::string_view text, ParseProblem& problem);
/// A number with an optional unit and nothing behind it.
std::optional<Margin> parse_margin(std::string_view text);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_EXPRESSION_H_
