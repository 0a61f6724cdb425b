// Build tags (moiety/build_tag.h) as rows, and how two of them differ.
#ifndef MOIETY_KERNEL_ENGINE_PLUGINS_TAG_H_
#define MOIETY_KERNEL_ENGINE_PLUGINS_TAG_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moiety::engine {

/// (field, text) in the tag's order.
using BuildTag = std::vector<std::pair<std::string, std::string>>;
BuildTag parse_tag(std::string_view text);

/// The tag of this process: how it was compiled, with the build id of the LibTorch that really is loaded.
const BuildTag& own_tag();

struct TagDifference {
  std::string field, plugin, worker;  ///< "(not given)" where a side lacks the field
};
std::vector<TagDifference> tag_differences(const BuildTag& plugin, const BuildTag& worker);

/// One line: every field that differs with both sides, the long hashes shortened to what tells them apart.
std::string difference_text(const std::vector<TagDifference>& differences);

/// What a person does about it.
extern const char* const rebuild_hint;

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_PLUGINS_TAG_H_
