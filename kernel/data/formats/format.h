// The formats that text can be extracted from. One file each beside this one; a corpus names them in its sources.
#ifndef MOIETY_KERNEL_DATA_FORMATS_FORMAT_H_
#define MOIETY_KERNEL_DATA_FORMATS_FORMAT_H_

#include <string>
#include <string_view>
#include <vector>

#include "kernel/base/result.h"
#include "kernel/data/packages/archive.h"

namespace moiety::data {

/// One independent piece of text: a page, a dictionary entry, a novel. Not yet cleaned.
struct Entry {
  std::string text;
  std::vector<std::string> labels;  ///< what the source itself says it is about ("Zool", "noun.animal")
  std::string group;                ///< entries of one group never part at a split; empty: each stands alone
};

/// Extractors are pure functions of bytes. Damaged or hostile bytes give an error or less text, never a crash, and bounded
/// memory.
struct Format {
  std::string_view name;
  std::string_view summary;
  /// `path` is a file that the source's patterns chose; files that belong to it (an index) are in `files` too.
  Result<std::vector<Entry>> (*extract)(const std::string& path, const Files& files);
  /// The chosen file that `path` belongs to, by its name: "ot.bzs" → "ot.bzz". nullptr: a file stands alone.
  std::string (*main_file)(std::string_view path) = nullptr;
  /// Layout is meaning (program code): no block is dropped as junk.
  bool keeps_layout = false;
};

const std::vector<Format>& formats();
const Format* find_format(std::string_view name);

// The registered formats.
extern const Format kHtml, kSword, kGcide, kDict, kRstr, kCode, kFortune, kInfo, kWordnet;

/// Content of `path`, decompressed when its name ends in .gz or .dz.
Result<std::string> content_of(const std::string& path, const Files& files);

/// "…: damaged compressed data": an error with the file's name before it.
tl::unexpected<Error> damaged(const std::string& path, const std::string& what);

bool ends_with(std::string_view text, std::string_view end);

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_FORMATS_FORMAT_H_
