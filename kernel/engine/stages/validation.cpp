#include "kernel/engine/stages/validation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moiety::engine {

FixedWindows proportional_windows(const TokenStreams& streams, std::int64_t context, std::int64_t count) {
  double total = 0;
  for (std::int64_t d = 0; d < streams.domains(); ++d) total += static_cast<double>(streams.windows(d, context));
  FixedWindows windows;
  for (std::int64_t d = 0; d < streams.domains(); ++d) {
    const std::int64_t there = streams.windows(d, context);
    if (there == 0) continue;
    const auto share = std::llround(static_cast<double>(count) * static_cast<double>(there) / total);
    windows.emplace_back(d, std::min<std::int64_t>(there, std::max<std::int64_t>(1, share)));
  }
  return windows;
}

FixedWindows even_windows(const TokenStreams& streams, std::int64_t context, std::int64_t count,
                          const std::vector<std::int64_t>& domains) {
  FixedWindows windows;
  const auto n = static_cast<std::int64_t>(domains.size());
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t share = count / n + (i < count % n ? 1 : 0), domain = domains[static_cast<std::size_t>(i)];
    const std::int64_t taken = std::min(share, streams.windows(domain, context));
    if (taken > 0) windows.emplace_back(domain, taken);
  }
  return windows;
}

WindowBatch pack_windows(const TokenStreams& streams, std::int64_t context, const FixedWindows& domain_and_index) {
  const auto count = static_cast<std::int64_t>(domain_and_index.size());
  WindowBatch packed;
  packed.batch.tokens = at::empty({count * context}, at::kLong);
  packed.targets = at::empty({count * context}, at::kLong);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto [domain, index] = domain_and_index[static_cast<std::size_t>(i)];
    streams.window(domain, index, context, packed.batch.tokens.data_ptr<std::int64_t>() + i * context,
                   packed.targets.data_ptr<std::int64_t>() + i * context);
    packed.batch.spans.add(context);
  }
  return packed;
}

void WindowLabels::tell(const FixedWindows& domain_and_index, ForwardContext& context) const {
  const auto count = static_cast<std::int64_t>(domain_and_index.size());
  context.sequence_domain = at::empty({count}, at::kLong);
  if (!cluster.empty()) context.sequence_cluster = at::empty({count}, at::kLong);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& [number, index] = domain_and_index[static_cast<std::size_t>(i)];
    const auto d = static_cast<std::size_t>(number);
    context.sequence_domain.data_ptr<std::int64_t>()[i] = domain.empty() ? number : domain.at(d);
    if (!cluster.empty())
      context.sequence_cluster.data_ptr<std::int64_t>()[i] = cluster.at(d).at(static_cast<std::size_t>(index));
  }
}

TokenLosses token_losses_of(const Gpt& model, const WindowLabels& labels) {
  return [&model, &labels](const Batch& batch, const at::Tensor& targets, const FixedWindows& domain_and_index) {
    ForwardContext forward;
    labels.tell(domain_and_index, forward);
    return model.language_losses(batch, targets, forward);
  };
}

LossSum loss_of(const TokenLosses& losses, const TokenStreams& streams, std::int64_t context, std::int64_t domain,
                std::int64_t count, std::int64_t batch, std::int64_t ignored) {
  LossSum sum;
  for (std::int64_t first = 0; first < count; first += batch) {
    FixedWindows windows;
    for (std::int64_t i = first; i < std::min(count, first + batch); ++i) windows.emplace_back(domain, i);
    const WindowBatch packed = pack_windows(streams, context, windows);
    const at::Tensor of_tokens = losses(packed.batch, packed.targets, windows);
    const float* values = of_tokens.data_ptr<float>();
    for (std::size_t i = 0; i < windows.size(); ++i, values += context)
      sum.loss = std::accumulate(values + ignored, values + context, sum.loss);
    sum.tokens += static_cast<std::int64_t>(windows.size()) * (context - ignored);
  }
  return sum;
}

LossSum loss_of(const TokenLosses& losses, const TokenStreams& streams, std::int64_t context, const FixedWindows& windows,
                std::int64_t batch) {
  LossSum sum;
  for (const auto& [domain, count] : windows) {
    const LossSum part = loss_of(losses, streams, context, domain, count, batch);
    sum.loss += part.loss;
    sum.tokens += part.tokens;
  }
  return sum;
}

double unigram_loss(const TokenStreams& streams, std::int64_t context, const FixedWindows& windows,
                    const std::vector<std::int64_t>& counts) {
  const double total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) +
                                           static_cast<std::int64_t>(counts.size()));
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(context)), targets(static_cast<std::size_t>(context));
  double loss = 0;
  std::int64_t n = 0;
  for (const auto& [domain, count] : windows) {
    for (std::int64_t i = 0; i < count; ++i) {
      streams.window(domain, i, context, tokens.data(), targets.data());
      for (const std::int64_t target : targets)
        loss -= std::log(static_cast<double>(counts[static_cast<std::size_t>(target)] + 1) / total);
      n += context;
    }
  }
  return loss / static_cast<double>(n);
}

}  // namespace moiety::engine
