// What a Routing means: a factor for each row and expert; and who keeps a place when experts are full.
#ifndef MOIETY_KERNEL_ENGINE_LAYERS_GATE_H_
#define MOIETY_KERNEL_ENGINE_LAYERS_GATE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "moiety/router.h"

namespace moiety::engine {

bool all_finite(const at::Tensor& tensor);

/// [rows, N] factors, or undefined for the plain sum. Differentiable in the weights. Throws ComponentFailure, naming `router`,
/// for wrong shapes or types, an expert that is not there, or weights that are not finite although `hidden` is.
at::Tensor gate_of(const Routing& routing, std::int64_t rows, std::int64_t experts, const at::Tensor& hidden, const char* router);

/// Places that are left when an expert takes at most `capacity` rows: `chosen` [R, k] with −1 where it is full. First choices
/// come before second ones; among equal ones the row of the higher `priority` [R] (undefined: the earlier row). `dropped` is
/// increased by the places lost.
at::Tensor within_capacity(const at::Tensor& chosen, std::int64_t experts, std::int64_t capacity, const at::Tensor& priority,
                           std::int64_t& dropped);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_LAYERS_GATE_H_
