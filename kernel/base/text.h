// Text for people: near names for a misspelt one, numbers, and what is safe to print on a terminal.
#ifndef MOIETY_KERNEL_BASE_TEXT_H_
#define MOIETY_KERNEL_BASE_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

namespace moiety {

/// At most `limit` of the candidates that are few edits away from `name` (Damerau-Levenshtein), nearest first.
std::vector<std::string> near_names(std::string_view name, const std::vector<std::string>& candidates, std::size_t limit = 3);

/// "did you mean `a`?", "did you mean `a` or `b`?", or nothing.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

/// The same, or where nothing is near: "there are a, b, c".
std::string suggestion(std::string_view name, const std::vector<std::string>& candidates);

/// Control characters as `\x1b`, `\n`, …: text from recipes, plugins and data never steers a terminal.
std::string printable(std::string_view text);

/// Without the spaces and tabs at both ends.
std::string_view trimmed(std::string_view text);
std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& parts, std::string_view separator);

/// Shortest decimal text that reads back as the same double: 0.001, not 1e-3; `nan`, `inf`, `-inf`.
std::string number(double value);

/// "1 h 5 min", "3 min 20 s", "4.2 s".
std::string duration(double seconds);

/// Columns needed on a terminal by valid UTF-8 (one a code point; enough for what Moiety prints).
std::size_t width(std::string_view utf8);

}  // namespace moiety

#endif  // MOIETY_KERNEL_BASE_TEXT_H_
