#include "kernel/engine/numerics/adamw.h"

#include <algorithm>
#include <cmath>

#include "kernel/engine/numerics/clones.h"
#include "kernel/engine/numerics/lanes.h"

namespace moiety::engine {
namespace {

constexpr std::int64_t chunk = 1 << 14;

MOIETY_CLONES double sum_of_squares(const float* x, std::int64_t size) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < size; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

struct Factors {
  float scale, beta1, beta2, rate, shrink, root_correction, epsilon;
};

MOIETY_CLONES void update(float* values, float* gradient, float* first, float* second, std::int64_t size, const Factors& f) {
  for (std::int64_t i = 0; i < size; ++i) {
    const float g = gradient[i] * f.scale;
    const float m = f.beta1 * first[i] + (1 - f.beta1) * g;
    const float v = f.beta2 * second[i] + (1 - f.beta2) * g * g;
    first[i] = m;
    second[i] = v;
    values[i] = values[i] * f.shrink - f.rate * m / (std::sqrt(v) * f.root_correction + f.epsilon);
    gradient[i] = 0;
  }
}

MOIETY_CLONES void descend(float* values, float* gradient, float* momentum, std::int64_t size, const Factors& f) {
  for (std::int64_t i = 0; i < size; ++i) {
    const float m = f.beta1 * momentum[i] + gradient[i] * f.scale;
    momentum[i] = m;
    values[i] = values[i] * f.shrink - f.rate * m;
    gradient[i] = 0;
  }
}

double clipped(double norm, double clip) { return clip > 0 && norm > clip ? clip / norm : 1.0; }

/// body(begin, count) over pieces of a segment, divided among threads.
template <class Body>
void in_pieces(const DecaySegment& segment, const Body& body) {
  const std::int64_t size = segment.end - segment.begin, chunks = (size + chunk - 1) / chunk;
  in_lanes(chunks, lanes_for(chunks), [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    body(segment.begin + begin * chunk, std::min(size, end * chunk) - begin * chunk);
  });
}

}  // namespace

double gradient_norm(const float* gradient, std::int64_t size) {
  const std::int64_t chunks = (size + chunk - 1) / chunk;
  std::vector<double> sums(static_cast<std::size_t>(chunks));
  in_lanes(chunks, lanes_for(chunks), [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c)
      sums[static_cast<std::size_t>(c)] = sum_of_squares(gradient + c * chunk, std::min(chunk, size - c * chunk));
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return std::sqrt(total);
}

void adamw_step(const std::vector<DecaySegment>& segments, float* values, float* gradient, float* first, float* second,
                std::int64_t step, double learning_rate, double norm, const AdamOptions& options) {
  const double correction1 = 1 - std::pow(options.beta1, static_cast<double>(step));
  const double correction2 = 1 - std::pow(options.beta2, static_cast<double>(step));
  const double scale = clipped(norm, options.clip);
  for (const DecaySegment& segment : segments) {
    const Factors factors{static_cast<float>(scale),
                          static_cast<float>(options.beta1),
                          static_cast<float>(options.beta2),
                          static_cast<float>(learning_rate / correction1),
                          segment.decays ? static_cast<float>(1 - learning_rate * options.weight_decay) : 1.0F,
                          static_cast<float>(1 / std::sqrt(correction2)),
                          static_cast<float>(options.epsilon)};
    in_pieces(segment, [&](std::int64_t from, std::int64_t count) {
      update(values + from, gradient + from, first + from, second + from, count, factors);
    });
  }
}

void sgd_step(const std::vector<DecaySegment>& segments, float* values, float* gradient, float* momentum, double learning_rate,
              double norm, const SgdOptions& options) {
  for (const DecaySegment& segment : segments) {
    Factors factors{};
    factors.scale = static_cast<float>(clipped(norm, options.clip));
    factors.beta1 = static_cast<float>(options.momentum);
    factors.rate = static_cast<float>(learning_rate);
    factors.shrink = segment.decays ? static_cast<float>(1 - learning_rate * options.weight_decay) : 1.0F;
    in_pieces(segment, [&](std::int64_t from, std::int64_t count) {
      descend(values + from, gradient + from, momentum + from, count, factors);
    });
  }
}

}  // namespace moiety::engine
