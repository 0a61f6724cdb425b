// Losses over fixed windows: the same ones every time, whatever the seed.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_VALIDATION_H_
#define MOIETY_KERNEL_ENGINE_STAGES_VALIDATION_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "kernel/engine/data/corpus.h"
#include "kernel/engine/model/gpt.h"

namespace moiety::engine {

/// The first windows of each domain: (domain, number).
using FixedWindows = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// `count` windows divided in proportion to how many each domain has, at least one each; all where there are fewer.
FixedWindows proportional_windows(const TokenStreams& streams, std::int64_t context, std::int64_t count);
/// `count` windows divided evenly over `domains`; a domain that has fewer gives all it has.
FixedWindows even_windows(const TokenStreams& streams, std::int64_t context, std::int64_t count,
                          const std::vector<std::int64_t>& domains);

struct LossSum {
  double loss = 0;
  std::int64_t tokens = 0;
  double mean() const { return loss / static_cast<double>(tokens); }
};

/// What is known of the windows of some streams, for routers that ask for it.
struct WindowLabels {
  std::vector<std::int64_t> domain;                ///< the model's number of each of the streams' domains; empty: the same
  std::vector<std::vector<std::int64_t>> cluster;  ///< of each window of each domain, from the first on; empty: not known
  void tell(const FixedWindows& domain_and_index, ForwardContext& context) const;
};

/// The losses of the tokens of some windows: [R].
using TokenLosses =
    std::function<at::Tensor(const Batch& batch, const at::Tensor& targets, const FixedWindows& domain_and_index)>;
TokenLosses token_losses_of(const Gpt& model, const WindowLabels& labels);

/// Sum of the token losses over `count` first windows of a domain, in micro-batches of `batch`; without the first `ignored`
/// tokens of each window.
LossSum loss_of(const TokenLosses& losses, const TokenStreams& streams, std::int64_t context, std::int64_t domain,
                std::int64_t count, std::int64_t batch, std::int64_t ignored = 0);
/// The same over all of `windows`.
LossSum loss_of(const TokenLosses& losses, const TokenStreams& streams, std::int64_t context, const FixedWindows& windows,
                std::int64_t batch);

/// Mean loss of the targets of the same windows under a unigram model with add-one smoothing of these counts.
double unigram_loss(const TokenStreams& streams, std::int64_t context, const FixedWindows& windows,
                    const std::vector<std::int64_t>& counts);

/// Packs windows: tokens and targets.
struct WindowBatch {
  Batch batch;
  at::Tensor targets;
};
WindowBatch pack_windows(const TokenStreams& streams, std::int64_t context, const FixedWindows& domain_and_index);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_VALIDATION_H_
