#include "kernel/engine/numerics/adamw.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernel/engine/numerics/exponential.h"
#include "kernel/engine/numerics/schedule.h"
#include "moiety/random.h"

namespace moiety::engine {
namespace {

/// The paper's algorithm 2, number by number, in double.
struct PlainAdamW {
  std::vector<double> values, first, second;
  void step(const std::vector<float>& gradient, std::int64_t t, double rate, double decay, double clip, const AdamOptions& o) {
    double norm = 0;
    for (const float g : gradient) norm += static_cast<double>(g) * static_cast<double>(g);
    norm = std::sqrt(norm);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double g = static_cast<double>(gradient[i]) * (clip > 0 && norm > clip ? clip / norm : 1.0);
      first[i] = o.beta1 * first[i] + (1 - o.beta1) * g;
      second[i] = o.beta2 * second[i] + (1 - o.beta2) * g * g;
      const double m = first[i] / (1 - std::pow(o.beta1, static_cast<double>(t))),
                   v = second[i] / (1 - std::pow(o.beta2, static_cast<double>(t)));
      values[i] -= rate * decay * values[i] + rate * m / (std::sqrt(v) + o.epsilon);
    }
  }
};

TEST(AdamW, fused_step_equals_the_plain_one) {
  Random random(1);
  const std::size_t n = 40000;
  std::vector<float> values(n), gradient(n), first(n), second(n);
  PlainAdamW plain{std::vector<double>(n), std::vector<double>(n), std::vector<double>(n)};
  for (std::size_t i = 0; i < n; ++i) plain.values[i] = values[i] = static_cast<float>(random.normal());
  AdamOptions options;
  options.weight_decay = 0.2;
  const std::int64_t half = 16 * 1250;
  const std::vector<DecaySegment> segments{{0, half, true}, {half, static_cast<std::int64_t>(n), false}};
  PlainAdamW no_decay = plain;
  for (std::int64_t t = 1; t <= 5; ++t) {
    for (float& g : gradient) g = static_cast<float>(0.1 * random.normal() * static_cast<double>(t == 3 ? 0.001 : 1));
    plain.step(gradient, t, 0.01, options.weight_decay, options.clip, options);
    no_decay.step(gradient, t, 0.01, 0, options.clip, options);
    const double norm = gradient_norm(gradient.data(), static_cast<std::int64_t>(n));
    adamw_step(segments, values.data(), gradient.data(), first.data(), second.data(), t, 0.01, norm, options);
    for (const float g : gradient) ASSERT_EQ(g, 0.0F);
  }
  for (std::size_t i = 0; i < n; ++i)
    ASSERT_NEAR(static_cast<double>(values[i]), static_cast<std::int64_t>(i) < half ? plain.values[i] : no_decay.values[i], 2e-6)
        << i;
}

TEST(AdamW, norm_does_not_depend_on_the_number_of_threads) {
  Random random(2);
  std::vector<float> gradient(100001);
  for (float& g : gradient) g = static_cast<float>(random.normal());
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const double one = gradient_norm(gradient.data(), 100001);
  at::set_num_threads(2);
  const double two = gradient_norm(gradient.data(), 100001);
  at::set_num_threads(threads);
  EXPECT_EQ(one, two);
  EXPECT_NEAR(one, std::sqrt(100001.0), 3);
  gradient[5] = std::nanf("");
  EXPECT_TRUE(std::isnan(gradient_norm(gradient.data(), 100001)));
}

TEST(Sgd, is_the_formula_with_momentum_decay_and_clipping) {
  const std::int64_t size = 40000, half = 20000;  // more than one piece
  for (const double momentum : {0.0, 0.9}) {
    const SgdOptions options{momentum, 0.1, 0.5};
    Random random(3);
    std::vector<float> values(size), moments(size), gradient(size);
    for (float& value : values) value = static_cast<float>(random.normal());
    std::vector<double> expected(values.begin(), values.end()), m(size, 0.0);
    for (int step = 1; step <= 3; ++step) {
      for (float& g : gradient) g = static_cast<float>(0.01 * random.normal());
      const double norm = gradient_norm(gradient.data(), size), scale = norm > 0.5 ? 0.5 / norm : 1;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        m[i] = momentum * m[i] + scale * static_cast<double>(gradient[i]);
        expected[i] = expected[i] * (i < static_cast<std::size_t>(half) ? 1 - 0.3 * 0.1 : 1) - 0.3 * m[i];
      }
      sgd_step({{0, half, true}, {half, size, false}}, values.data(), gradient.data(), moments.data(), 0.3, norm, options);
      for (const float g : gradient) ASSERT_EQ(g, 0);
    }
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(static_cast<double>(values[i]), expected[i], 1e-5) << i;
  }
}

TEST(Schedule, rises_then_falls_to_the_floor) {
  const Schedule schedule{0.1, Decay::cosine, 0.1};
  EXPECT_DOUBLE_EQ(schedule.factor(0, 100), 0.1);
  EXPECT_DOUBLE_EQ(schedule.factor(9, 100), 1);
  EXPECT_DOUBLE_EQ(schedule.factor(10, 100), 1);
  for (std::int64_t step = 10; step < 99; ++step) EXPECT_GT(schedule.factor(step, 100), schedule.factor(step + 1, 100));
  EXPECT_NEAR(schedule.factor(99, 100), 0.1, 1e-3);
  const Schedule constant{0, Decay::none, 0.1};
  EXPECT_EQ(constant.factor(0, 3), 1);
  EXPECT_EQ(constant.factor(2, 3), 1);
  const Schedule short_run{0.02, Decay::cosine, 0.1};
  EXPECT_EQ(short_run.factor(0, 1), 1);
}

TEST(Exponential, agrees_with_the_library) {
  for (double x = -86; x < 87.9; x += 0.037) {
    const double exact = std::exp(static_cast<double>(static_cast<float>(x)));
    ASSERT_NEAR(static_cast<double>(fast_exp(static_cast<float>(x))) / exact, 1, 3e-7) << x;
  }
  for (double x = -20; x < 20; x += 0.013) {
    const auto f = static_cast<float>(x);
    const double d = static_cast<double>(f);
    ASSERT_NEAR(static_cast<double>(fast_tanh(f)), std::tanh(d), 3e-7) << x;
    const double inside = 0.7978845608 * (d + 0.044715 * d * d * d), t = std::tanh(inside);
    ASSERT_NEAR(static_cast<double>(gelu(f)), 0.5 * d * (1 + t), 4e-6) << x;
  }
  EXPECT_EQ(fast_exp(0), 1.0F);
  EXPECT_TRUE(std::isnan(fast_exp(std::nanf(""))));
  EXPECT_TRUE(std::isnan(gelu(std::nanf(""))));
}

}  // namespace
}  // namespace moiety::engine
