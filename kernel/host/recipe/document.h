// A recipe as text: the file, its chain of parents and the overrides of the command line, merged into one tree.
#ifndef MOIETY_KERNEL_HOST_RECIPE_DOCUMENT_H_
#define MOIETY_KERNEL_HOST_RECIPE_DOCUMENT_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernel/host/recipe/diagnostics.h"
#include "kernel/host/recipe/value.h"

namespace moiety::host {

/// One `--set path=value` or `--unset path`, in the order of the command line.
struct Override {
  bool unset = false;
  std::string text;
};

struct Document {
  Value root = Value::table();
  std::string path, raw_text;  ///< of the recipe itself
  /// Written in the recipe itself or on the command line, not inherited.
  static bool own(const Place& place) { return place.source >= most_extends; }
};

/// Reads and merges. `[recipe] extends` and `unset` are consumed. What is wrong goes to `diagnostics`; a file that cannot be read
/// or parsed gives nothing.
std::optional<Document> load_document(const std::string& path, const std::vector<Override>& overrides, Sources& sources,
                                      Diagnostics& diagnostics);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_DOCUMENT_H_
