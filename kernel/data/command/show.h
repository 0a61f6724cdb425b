// What is in a corpus or task, for people.
#ifndef MOIETY_KERNEL_DATA_COMMAND_SHOW_H_
#define MOIETY_KERNEL_DATA_COMMAND_SHOW_H_

#include <string>

#include "kernel/base/result.h"
#include "kernel/data/command/prepare.h"
#include "kernel/data/corpus/description.h"

namespace moiety::data {

/// Names and abouts of all corpora and tasks, and where they are prepared.
Result<std::string> list_all(const Places& places);

/// Domains, sizes, packages, licences of a corpus or task named as in a recipe; for each preparation in the store its true sizes.
Result<std::string> show(const std::string& use, const Places& places);

/// Text of one document of a prepared corpus.
Result<std::string> decode_document(const std::string& corpus, const std::string& domain, Part part, std::size_t document);

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_COMMAND_SHOW_H_
