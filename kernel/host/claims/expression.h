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

/// Where a metric stands along one axis: at a label, at that of a loop (a quantified axis, or one that a function goes over), at
/// all others, or at the mean.
struct Binding {
  enum class Kind { label, loop, other_label, other_loop, mean } kind = Kind::label;
  std::string value;  ///< the label, or the name of the loop
};

struct Loop {
  std::string axis;
  std::vector<std::string> labels;  ///< in order; empty when only the data know them
};

/// `[stage.]name[(arm, axis=label, …)]`. Stage, arm and bindings are filled in by the check.
struct MetricTerm {
  std::string stage, name, arm;
  std::map<std::string, std::string> pins, excluded;  ///< axis=label, axis!=label
  std::map<std::string, double> times;                ///< axis*50
  std::size_t begin = 0, end = 0;
  bool cost = false;  ///< what every stage costs (costs.h), not something recorded
  std::map<std::string, Binding> bindings;
  std::vector<Loop> mean_over;  ///< loops of this term alone: its value is their mean
};

struct Expression {
  enum class Kind { number, metric, sum, difference, product, quotient, absolute, function, measure } kind = Kind::number;
  double number = 0;
  MetricTerm metric;     ///< of a measure: its name and pins
  std::string function;  ///< "spearman", "best", …
  std::shared_ptr<Expression> left, right;
  std::vector<std::string> over;
  std::vector<Loop> loops;                   ///< what `over` goes over, filled in by the check
  std::shared_ptr<Expression> where_metric;  ///< cells where it is not below (above) `where_number` are left out
  bool where_below = false;
  double where_number = 0;
  std::vector<MetricTerm> ranked;  ///< of `rank`: the same metric of the other arms, filled in by the check
  int better = 0;                  ///< of its metric: for `best`, `worst` and `rank`
  std::size_t begin = 0, end = 0;  ///< bytes in the text
};

std::shared_ptr<Expression> clone(const Expression& node);

/// A chain of sums with the comparisons between them, or one sum and how it goes along an axis.
struct ParsedStatement {
  std::vector<std::shared_ptr<Expression>> sums;
  std::vector<std::string> relations;  ///< one fewer than sums; or a single "in", "rises", "falls", "peaks", "dips", "stays"
  std::string along;
  std::size_t along_begin = 0;
  std::optional<Margin> by, within, low, high;
};

struct ParseProblem {
  std::size_t begin = 0, end = 0;  ///< bytes in the text
  std::string message, hint;
};

/// Nothing and a problem when the text is no statement of the grammar.
std::optional<ParsedStatement> parse_statement(std::string_view text, ParseProblem& problem);
/// A sum alone, as measures are.
std::shared_ptr<Expression> parse_expression(std::string_view text, ParseProblem& problem);
/// A number with an optional unit and nothing behind it.
std::optional<Margin> parse_margin(std::string_view text);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_EXPRESSION_H_
