// Program text: one entry a file, layout kept.
#include "kernel/data/formats/format.h"
#include "kernel/data/text/unicode.h"

namespace moiety::data {
namespace {

Result<std::vector<Entry>> extract_code(const std::string& path, const Files& files) {
  const auto bytes = content_of(path, files);
  if (!bytes) return pass(bytes);
  return std::vector<Entry>{{to_utf8(*bytes), {}, {}}};
}

}  // namespace

const Format kCode = {"code", "program text as it is", extract_code, nullptr, true};

}  // namespace moiety::data
