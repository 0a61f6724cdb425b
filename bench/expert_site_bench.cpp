// Experts that compute their own rows against computing all and multiplying by the gate, forward and backward: from how many of
// 16 experts of 32 neurons on is the second faster? Width 128, 1,000 rows, one thread. GFLOP/s are of the work that is needed.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdio>

#include "kernel/engine/layers/feed_forward.h"
#include "kernel/engine/layers/routed_feed_forward.h"
#include "kernel/engine/numerics/clones.h"

namespace moiety::engine {
namespace {

constexpr std::int64_t rows = 1000, experts = 16, each = 32, width = 128;

struct Problem {
  explicit Problem(std::int64_t k) {
    at::manual_seed(1);
    x = at::randn({rows, width}).requires_grad_(true);
    in = at::randn({experts, each, width}).mul_(0.1).requires_grad_(true);
    out = at::randn({experts, width, each}).mul_(0.1).requires_grad_(true);
    chosen = std::get<1>(at::rand({rows, experts}).topk(k, 1));
    gate = at::zeros({rows, experts}).scatter(1, chosen, 1.0);
  }
  at::Tensor routed() const { return routed_feed_forward(x, {in, at::Tensor(), out}, gate, chosen); }
  at::Tensor masked() const {
    const auto flat = experts * each;
    return feed_forward(x, {in.view({flat, width}), at::Tensor(), out.permute({1, 0, 2}).reshape({width, flat}), at::Tensor()},
                        gate);
  }
  at::Tensor x, in, out, chosen, gate;
};

template <class Form>
void measure(benchmark::State& state, const Form& form) {
  const Problem problem(state.range(0));
  const at::Tensor difference = (problem.routed() - problem.masked()).abs().max();
  if (difference.item<double>() > 1e-3) {
    state.SkipWithError("the two forms disagree");
    return;
  }
  const at::Tensor upstream = at::ones({rows, width});
  for (auto _ : state) form(problem).backward(upstream);
  const double flops = 3.0 * 2 * 2 * rows * width * each * static_cast<double>(state.range(0));
  state.counters["GFLOP/s"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void routed(benchmark::State& state) {
  measure(state, [](const Problem& problem) { return problem.routed(); });
}
void masked(benchmark::State& state) {
  measure(state, [](const Problem& problem) { return problem.masked(); });
}
BENCHMARK(routed)->Arg(2)->Arg(4)->Arg(8)->Arg(12)->Arg(14)->Arg(16);
BENCHMARK(masked)->Arg(2)->Arg(4)->Arg(8)->Arg(12)->Arg(14)->Arg(16);

using Eight = float __attribute__((vector_size(32)));

/// Twelve independent chains of multiply-adds, GFLOP/s: what the core can do at most.
MOIETY_CLONES double peak() {
  constexpr int chains = 12, turns = 8'000'000;
  Eight sums[chains], factor = {}, more = {};
  for (int i = 0; i < 8; ++i) factor[i] = 0.999F, more[i] = 1e-3F;
  for (int c = 0; c < chains; ++c) sums[c] = more * static_cast<float>(c);
  const auto begin = std::chrono::steady_clock::now();
  for (int t = 0; t < turns; ++t) {
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c) sums[c] = sums[c] * factor + more;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  benchmark::DoNotOptimize(sums);
  return 2.0 * 8 * chains * turns / seconds.count() * 1e-9;
}

}  // namespace
}  // namespace moiety::engine

int main(int count, char** words) {
  at::set_num_threads(1);
  benchmark::Initialize(&count, words);
  std::printf("peak of multiply-adds, this run: %.0f GFLOP/s\n", moiety::engine::peak());
  benchmark::RunSpecifiedBenchmarks();
}
