// What is done to rows of floats between two products, in vector code.
#ifndef MOIETY_KERNEL_ENGINE_NUMERICS_ROWS_H_
#define MOIETY_KERNEL_ENGINE_NUMERICS_ROWS_H_

#include <cstdint>

namespace moiety::engine {

/// after = GELU(before), the tanh form.
void activate(const float* before, float* after, std::int64_t size);

/// gradient *= GELU'(before); `after` is GELU(before), made again.
void activate_backward(const float* before, float* after, float* gradient, std::int64_t size);

void scale_by(float* values, float factor, std::int64_t size);
float dot(const float* a, const float* b, std::int64_t size);
void add_to(float* sum, const float* values, std::int64_t size);

/// `row` to the beginning of each of `count` rows, `stride` floats apart.
void fill_rows(float* rows, const float* row, std::int64_t count, std::int64_t size, std::int64_t stride);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_NUMERICS_ROWS_H_
