// What is done to rows of floats between two products, in vector code.
#ifndef MOIETY_KERNEL_ENGINE_NUMERICS_ROWS_H_
#define MOIETY_KERNEL_ENGINE_NUMERICS_ROWS_H_

#include <cstdint>

#include "moiety/site.h"

namespace moiety::engine {

/// after[i] = GELU(before[i]), ReLU(before[i]) or, where neurons are gated, SiLU(before[i]) · before[size + i].
void activate(Activation activation, const float* before, float* after, std::int64_t size);

/// From d = ∂/∂after: into[i] = ∂/∂before[i] (gated: also into[size + i]). `after` is made again; `into` may be d unless neurons
/// are gated.
void activate_backward(Activation activation, const float* before, const float* d, float* after, float* into, std::int64_t size);

void scale_by(float* values, float factor, std::int64_t size);
float dot(const float* a, const float* b, std::int64_t size);
void add_to(float* sum, const float* values, std::int64_t size);

/// `row` to the beginning of each of `count` rows, `stride` floats apart.
void fill_rows(float* rows, const float* row, std::int64_t count, std::int64_t size, std::int64_t stride);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_NUMERICS_ROWS_H_
