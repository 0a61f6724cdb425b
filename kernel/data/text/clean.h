// Cleaning that every extracted text goes through, whatever format it came from.
#ifndef MOIETY_KERNEL_DATA_TEXT_CLEAN_H_
#define MOIETY_KERNEL_DATA_TEXT_CLEAN_H_

#include <string>
#include <string_view>
#include <vector>

namespace moiety::data {

/// Plain quotes, hyphens and spaces for their typographic forms; a tab becomes four spaces; control characters, zero-width
/// characters, private-use characters, U+FFFD and invalid bytes go, as does U+2581, which SentencePiece uses for a space: what is
/// left survives encoding and decoding unchanged. Spaces at line ends go, and at most one blank line stays between two blocks.
std::string normalise(std::string_view text);

/// Joins the lines of blocks that look like hard-wrapped prose; code, tables and lists keep their lines.
std::string unwrap(std::string_view text);

/// One line: every run of white space becomes one space, none at the ends.
std::string one_line(std::string_view text);

/// Views of the blocks between blank lines; no empty ones.
std::vector<std::string_view> split_blocks(std::string_view text);
std::vector<std::string_view> split_lines(std::string_view text);

std::string_view trim(std::string_view text);

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_TEXT_CLEAN_H_
