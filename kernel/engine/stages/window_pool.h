// The windows of a text as samplers, mixing schedulers and probes count them, and how those of one step are drawn.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_WINDOW_POOL_H_
#define MOIETY_KERNEL_ENGINE_STAGES_WINDOW_POOL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernel/engine/data/corpus.h"
#include "kernel/engine/plugins/component_set.h"
#include "kernel/engine/stages/ledger.h"
#include "kernel/engine/stages/validation.h"
#include "moiety/model.h"
#include "moiety/sampler.h"

namespace moiety::engine {

/// Windows of all domains, numbered domain by domain.
struct WindowPool {
  TokenStreams streams;
  std::int64_t context = 0;
  WindowTable table;

  WindowPool(const TokenStreams& text, std::int64_t length);
  std::int64_t domain(std::int64_t window) const;
  /// Domain and number in it.
  std::pair<std::int64_t, std::int64_t> locate(std::int64_t window) const;
  FixedWindows locate(const std::vector<std::int64_t>& windows) const;
  /// Labels by domain, as WindowLabels has them, into the table.
  void set_clusters(const std::vector<std::vector<std::int64_t>>& labels, std::int64_t count);
};

/// The windows of one step in the order in which they are computed: in the order in which the ledger makes domains due or, where
/// the sampler chooses across domains, its own. Throws ComponentFailure for windows that are not what was asked for.
std::vector<std::int64_t> draw_windows(const WindowPool& pool, const Instance& sampler, const std::vector<std::int64_t>& due,
                                       std::int64_t step, std::int64_t micro_batch);

/// A pool as components see it that may look at text.
class PoolData final : public Data {
 public:
  /// `count`: how often each token occurs in the training text; counted when somebody asks.
  PoolData(const WindowPool& pool, std::vector<std::string> names, std::function<at::Tensor()> count)
      : pool_(pool), names_(std::move(names)), count_(std::move(count)) {}
  const std::vector<std::string>& domains() const override { return names_; }
  const WindowTable& table() const override { return pool_.table; }
  at::Tensor tokens(const Windows& windows) const override;
  at::Tensor token_counts() const override {
    if (!counts_.defined()) counts_ = count_();
    return counts_;
  }

 private:
  const WindowPool& pool_;
  std::vector<std::string> names_;
  std::function<at::Tensor()> count_;
  mutable at::Tensor counts_;
};

/// [vocabulary] int64: of all tokens in the windows of the streams, targets included.
at::Tensor token_counts(const TokenStreams& streams, std::int64_t context, std::int64_t vocabulary);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_WINDOW_POOL_H_
