// Character references of HTML and XML.
#ifndef MOIETY_KERNEL_DATA_TEXT_ENTITIES_H_
#define MOIETY_KERNEL_DATA_TEXT_ENTITIES_H_

#include <string>
#include <string_view>

namespace moiety::data {

/// Replaces `&amp;`, `&#233;`, `&#xE9;` and the named references that occur in prose; unknown ones stay as written.
/// A number that is no character is dropped.
std::string decode_entities(std::string_view text);

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_TEXT_ENTITIES_H_
