// Where the counts of claims come from: the dry pass before a run, the manifests in the store after it.
#ifndef MOIETY_KERNEL_HOST_CLAIMS_KNOWN_COUNTS_H_
#define MOIETY_KERNEL_HOST_CLAIMS_KNOWN_COUNTS_H_

#include "kernel/host/claims/costs.h"
#include "kernel/host/run/dry_pass.h"
#include "kernel/host/run/store.h"

namespace moiety::host {

/// Before a run: what the dry pass said; of stages that it was not asked about, what the store says. Both must outlive it.
CountsOf planned_counts(const DryPass& dry_pass, const Store& store);
/// After a run: what the store says; of stages that it has not, what the dry pass said.
CountsOf recorded_counts(const DryPass& dry_pass, const Store& store);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_KNOWN_COUNTS_H_
