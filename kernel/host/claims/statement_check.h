// One statement against the recipe: units, margins, what its relation asks for.
#ifndef MOIETY_KERNEL_HOST_CLAIMS_STATEMENT_CHECK_H_
#define MOIETY_KERNEL_HOST_CLAIMS_STATEMENT_CHECK_H_

#include <optional>
#include <string>

#include "kernel/host/claims/claim.h"
#include "kernel/host/claims/statement_text.h"
#include "kernel/host/claims/terms.h"

namespace moiety::host {

class StatementCheck {
 public:
  /// Adds to `claim` what it finds good enough. `arms_known`: see read_claims. All must outlive it.
  StatementCheck(Claim& claim, Terms& terms, bool arms_known) : claim_(claim), terms_(terms), arms_known_(arms_known) {}

  void compare(const ParsedStatement& parsed, const StatementText& text);
  /// Of `explore`: reported, not judged.
  void explore(const std::shared_ptr<Expression>& expression, const StatementText& text);

  bool broken() const { return broken_; }                        ///< the unit of some side is not known
  bool strict() const { return strict_; }                        ///< some statement has `<` or `>`
  const std::string& bad_margin() const { return bad_margin_; }  ///< the claim's `margin` is in pp, and a statement in this unit

 private:
  void quantify(ClaimStatement& one, const std::string& along);
  void along(const ParsedStatement& parsed, const std::optional<Unit>& unit, ClaimStatement& one, const StatementText& text);
  void comparison(ClaimStatement& one, const std::optional<Unit>& left, const std::optional<Unit>& right,
                  const StatementText& text);

  Claim& claim_;
  Terms& terms_;
  const bool arms_known_;
  bool broken_ = false, strict_ = false;
  std::string bad_margin_;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_STATEMENT_CHECK_H_
