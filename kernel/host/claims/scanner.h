// The words of a claim's text: names, numbers, margins, signs of comparison. What is made of them is in expression.cpp.
#ifndef MOIETY_KERNEL_HOST_CLAIMS_SCANNER_H_
#define MOIETY_KERNEL_HOST_CLAIMS_SCANNER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "kernel/host/claims/expression.h"

namespace moiety::host {

/// Goes through a text from its beginning. What is wrong is kept in `problem`: the first that was told.
class Scanner {
 public:
  Scanner(std::string_view text, ParseProblem& problem) : text_(text), problem_(problem) {}

  /// A number with an optional unit.
  std::optional<Margin> margin();
  /// Whether nothing but space is left.
  bool at_end();

 protected:
  static bool letter(char c);
  static bool digit(char c);

  std::nullopt_t problem(std::size_t begin, std::size_t end, std::string message, std::string hint = {});
  void space();
  bool word_ahead(std::string_view word) const;
  bool points_ahead() const;
  /// "<=", "!=", … ("==" is "="); empty when none stands here.
  std::string take_relation();
  std::string next_word() const;
  std::string identifier();
  /// A name as arms and axes have it, or what stands in quotes.
  std::optional<std::string> label();
  /// Digits, a point with digits behind it, an exponent: `0..2` is two numbers.
  std::optional<double> number();

  std::string_view text_;
  ParseProblem& problem_;
  std::size_t at_ = 0;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_SCANNER_H_
