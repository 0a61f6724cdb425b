#include "kernel/data/formats/format.h"

#include "kernel/base/text.h"
#include "kernel/data/packages/inflate.h"

namespace moiety::data {

const std::vector<Format>& formats() {
  static const std::vector<Format> all = {kCode, kDict, kFortune, kGcide, kHtml, kInfo, kRstr, kSword, kWordnet};
  return all;
}

const Format* find_format(std::string_view name) {
  for (const auto& format : formats()) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

tl::unexpected<Error> damaged(const std::string& path, const std::string& what) {
  return fail(ErrorKind::failed, printable(path) + ": " + what);
}

Result<std::string> content_of(const std::string& path, const Files& files) {
  const auto found = files.find(path);
  if (found == files.end()) return damaged(path, "this file is missing in its package");
  if (!ends_with(path, ".gz") && !ends_with(path, ".dz")) return found->second;
  auto text = gunzip(found->second);
  if (!text) return damaged(path, text.error().message);
  return text;
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace moiety::data
