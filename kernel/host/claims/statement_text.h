// The text of one statement of a claim and where it stands in the recipe: errors with a caret inside it.
#ifndef MOIETY_KERNEL_HOST_CLAIMS_STATEMENT_TEXT_H_
#define MOIETY_KERNEL_HOST_CLAIMS_STATEMENT_TEXT_H_

#include <string>

#include "kernel/host/recipe/diagnostics.h"
#include "kernel/host/recipe/value.h"

namespace moiety::host {

class StatementText {
 public:
  /// `written` and `diagnostics` must outlive it. `path`: "claim.better".
  StatementText(const Value& written, std::string path, Diagnostics& diagnostics)
      : written_(written), path_(std::move(path)), diagnostics_(diagnostics) {}

  const std::string& text() const { return written_.text; }
  /// About the bytes from `begin` to `end` of the text.
  void error(std::size_t begin, std::size_t end, const std::string& message, const std::string& hint = {},
             const std::string& reference = {}) const;

 private:
  Place inside(std::size_t begin, std::size_t end) const;

  const Value& written_;
  std::string path_;
  Diagnostics& diagnostics_;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_STATEMENT_TEXT_H_
