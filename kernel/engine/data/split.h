// Which part of the data: what trains can be opened only by types that cannot name a test split.
#ifndef MOIETY_KERNEL_ENGINE_DATA_SPLIT_H_
#define MOIETY_KERNEL_ENGINE_DATA_SPLIT_H_

#include <optional>
#include <string>

#include "moiety/params.h"

namespace moiety::engine {

/// What a training stage may open: `train` to train on, `valid` to watch itself.
MOIETY_CHOICE(TrainingSplit, train, valid);
/// What a measuring stage may open.
enum class Split { train, valid, test };

inline const char* name(TrainingSplit split) { return split == TrainingSplit::train ? "train" : "valid"; }
inline const char* name(Split split) { return split == Split::train ? "train" : split == Split::valid ? "valid" : "test"; }

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_DATA_SPLIT_H_
