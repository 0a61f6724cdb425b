// Products and transposes against loops.
#include "kernel/engine/numerics/matrix.h"

#include <gtest/gtest.h>

#include <vector>

#include "moiety/random.h"

namespace moiety::engine {
namespace {

std::vector<float> numbers(std::int64_t count, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  Random random(seed);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

TEST(Matrix, transpose_moves_every_number_and_touches_nothing_else) {
  for (const std::int64_t rows : {1, 7, 8, 9, 24, 33})
    for (const std::int64_t columns : {1, 5, 8, 16, 19, 40}) {
      const std::int64_t from = columns + 3, to = rows + 2;
      const auto in = numbers(rows * from, 1);
      std::vector<float> out(static_cast<std::size_t>(columns * to), -7.0F);
      transpose(rows, columns, {in.data(), from}, {out.data(), to});
      for (std::int64_t c = 0; c < columns; ++c)
        for (std::int64_t r = 0; r < to; ++r)
          ASSERT_EQ(out[static_cast<std::size_t>(c * to + r)], r < rows ? in[static_cast<std::size_t>(r * from + c)] : -7.0F)
              << rows << " x " << columns << " at " << r << ", " << c;
    }
}

TEST(Matrix, product_equals_the_sum_in_every_form_with_strides_and_what_was_there) {
  constexpr std::int64_t m = 13, n = 21, k = 34, gap = 4;
  for (const Form form_a : {Form::plain, Form::transposed})
    for (const Form form_b : {Form::plain, Form::transposed})
      for (const float keep : {0.0F, 1.0F, 0.5F}) {
        const std::int64_t a_stride = (form_a == Form::plain ? k : m) + gap, b_stride = (form_b == Form::plain ? n : k) + gap;
        const auto a = numbers(64 * a_stride, 1), b = numbers(64 * b_stride, 2), before = numbers(m * (n + gap), 3);
        auto c = before;
        product(form_a, form_b, m, n, k, {a.data(), a_stride}, {b.data(), b_stride}, {c.data(), n + gap}, keep, 2.0F);
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t j = 0; j < n + gap; ++j) {
            const auto at = static_cast<std::size_t>(i * (n + gap) + j);
            double sum = static_cast<double>(before[at]);
            if (j < n) {
              sum *= static_cast<double>(keep);
              for (std::int64_t p = 0; p < k; ++p)
                sum +=
                    2.0 *
                    static_cast<double>(
                        a[static_cast<std::size_t>(form_a == Form::plain ? i * a_stride + p : p * a_stride + i)]) *
                    static_cast<double>(b[static_cast<std::size_t>(form_b == Form::plain ? p * b_stride + j : j * b_stride + p)]);
            }
            ASSERT_NEAR(static_cast<double>(c[at]), sum, 1e-4) << i << ", " << j;
          }
        }
      }
}

}  // namespace
}  // namespace moiety::engine
