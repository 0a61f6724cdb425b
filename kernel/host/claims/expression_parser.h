// Reads the expressions of claims and measures: sums, products, functions over axes, metrics with their pins.
#ifndef MOIETY_KERNEL_HOST_CLAIMS_EXPRESSION_PARSER_H_
#define MOIETY_KERNEL_HOST_CLAIMS_EXPRESSION_PARSER_H_

#include <memory>
#include <string>

#include "kernel/host/claims/scanner.h"

namespace moiety::host {

class ExpressionParser : protected Scanner {
 public:
  using Scanner::Scanner;

  /// The whole text as one sum; null after a problem.
  std::shared_ptr<Expression> expression();

 protected:
  using Node = std::shared_ptr<Expression>;

  Node sum();

 private:
  Node make(Expression::Kind kind, Node left, Node right, std::size_t begin);
  Node product();
  Node term();
  Node bracketed(std::size_t begin);
  /// `agree(a, b over x, y where c < 0.05)`; the name is read.
  Node function(const std::string& name, std::size_t begin);
  bool over(Expression& node);
  bool where(Expression& node);
  bool close();
  Node metric(const std::string& first, std::size_t begin);
  bool arguments(MetricTerm& term);
  bool times(MetricTerm& term, const std::string& axis, std::size_t begin);

  int depth_ = 0;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_EXPRESSION_PARSER_H_
