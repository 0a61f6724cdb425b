// Claims against the recipe they stand in: arms, stages, metrics, axes and units, before anything runs.
#ifndef MOIETY_KERNEL_HOST_CLAIMS_CHECK_H_
#define MOIETY_KERNEL_HOST_CLAIMS_CHECK_H_

#include <set>
#include <vector>

#include "kernel/host/claims/claim.h"
#include "kernel/host/recipe/diagnostics.h"
#include "kernel/host/recipe/value.h"

namespace moiety::host {

struct Recipe;

/// Reads [claim] (defaults applied already; `from_defaults`: where they are written) and the [measure] that it uses. `arms_known`
/// is false when errors in the arms hide stages: then metrics, axes and units are not looked at. What is wrong goes to
/// `diagnostics`, with a caret inside `that` where the text stands on one line.
std::vector<Claim> read_claims(const Value& root, const std::set<Place>& from_defaults, const Recipe& recipe, bool arms_known,
                               Diagnostics& diagnostics);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_CHECK_H_
