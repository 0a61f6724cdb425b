// UTF-8 as the corpus needs it: repairing bytes of unknown encoding, walking over code points, telling letters from the rest.
#ifndef MOIETY_KERNEL_DATA_TEXT_UNICODE_H_
#define MOIETY_KERNEL_DATA_TEXT_UNICODE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace moiety::data {

/// What a decoder returns for a byte that starts no valid sequence.
inline constexpr char32_t kInvalid = 0xFFFFFFFF;

/// Reads the code point at `position` and moves past it; past one byte, returning kInvalid, when no valid sequence starts there.
/// Overlong forms, surrogates and values above U+10FFFF are invalid.
char32_t next_code_point(std::string_view text, std::size_t& position);

void append_code_point(std::string& text, char32_t code_point);

bool is_utf8(std::string_view bytes);

/// Valid UTF-8 from bytes of unknown encoding. Valid UTF-8 stays as it is; text that is mostly UTF-8 loses its stray bytes;
/// anything else is read as ISO 8859-1.
std::string to_utf8(std::string_view bytes);

/// Number of code points of valid UTF-8.
std::size_t count_characters(std::string_view utf8);

/// Letters of any script, by block; digits, punctuation, symbols and arrows are not letters.
bool is_letter(char32_t code_point);

/// The longest prefix of `utf8` of at most `limit` bytes that ends between two code points.
std::string_view prefix(std::string_view utf8, std::size_t limit);

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_TEXT_UNICODE_H_
