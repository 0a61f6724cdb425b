#ifndef MOIETY_KERNEL_ENGINE_WORKER_VERSION_H_
#define MOIETY_KERNEL_ENGINE_WORKER_VERSION_H_

namespace moiety::engine {

inline constexpr const char* version = MOIETY_VERSION;

/// Raised with every change of the engine that changes numbers: stages made before are then stale.
inline constexpr int results_revision = 4;

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_WORKER_VERSION_H_
