#include "kernel/host/claims/scanner.h"

#include <algorithm>
#include <charconv>

namespace moiety::host {

bool Scanner::letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool Scanner::digit(char c) { return c >= '0' && c <= '9'; }

std::nullopt_t Scanner::problem(std::size_t begin, std::size_t end, std::string message, std::string hint) {
  if (problem_.message.empty()) problem_ = {begin, std::max(end, begin + 1), std::move(message), std::move(hint)};
  return std::nullopt;
}

void Scanner::space() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
}

bool Scanner::at_end() {
  space();
  return at_ == text_.size();
}

bool Scanner::word_ahead(std::string_view word) const {
  if (text_.substr(at_, word.size()) != word) return false;
  const std::size_t end = at_ + word.size();
  return end >= text_.size() || !(letter(text_[end]) || digit(text_[end]) || text_[end] == '.' || text_[end] == '(');
}

bool Scanner::points_ahead() const {
  return text_.substr(at_, 2) == "pp" && (at_ + 2 >= text_.size() || !(letter(text_[at_ + 2]) || digit(text_[at_ + 2])));
}

std::string Scanner::take_relation() {
  for (const std::string_view relation : {"<=", ">=", "!=", "==", "<", ">", "~", "="}) {
    if (text_.substr(at_, relation.size()) != relation) continue;
    at_ += relation.size();
    return std::string(relation == "==" ? "=" : relation);
  }
  return {};
}

std::string Scanner::next_word() const {
  std::size_t end = at_;
  while (end < text_.size() && text_[end] != ' ' && text_[end] != ')' && text_[end] != '(') ++end;
  return std::string(text_.substr(at_, std::max<std::size_t>(1, end - at_)));
}

std::string Scanner::identifier() {
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

std::optional<std::string> Scanner::label() {
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

std::optional<double> Scanner::number() {
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

std::optional<Margin> Scanner::margin() {
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

}  // namespace moiety::host
