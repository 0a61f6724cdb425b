// The safetensors format, read strictly: a file is damaged unless every byte of it is accounted for.
// https://github.com/huggingface/safetensors
#ifndef MOIETY_KERNEL_ENGINE_CHECKPOINT_SAFETENSORS_H_
#define MOIETY_KERNEL_ENGINE_CHECKPOINT_SAFETENSORS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernel/base/result.h"
#include "moiety/weights.h"

namespace moiety::engine {

/// (name, tensor) in the order of the file. F32, F64 and I64 are written; names are unique and not "__metadata__".
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// The whole file. Equal tensors give equal bytes.
std::string safetensors_bytes(const NamedTensors& tensors);

/// Refuses: a header over 100 MB or over the file, JSON that is not one, duplicate names, unknown types, sizes that overflow,
/// offsets that are out of range or order, overlap or leave a gap, bytes that belong to no tensor. `what` names the file in
/// errors.
Result<TensorMap> parse_safetensors(std::string_view bytes, const std::string& what);

Status write_safetensors(const std::string& path, const NamedTensors& tensors);
Result<TensorMap> read_safetensors(const std::string& path);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_CHECKPOINT_SAFETENSORS_H_
