// Which cluster a window of text is in, by the clustering that a stage left.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_CLUSTER_LABELS_H_
#define MOIETY_KERNEL_ENGINE_STAGES_CLUSTER_LABELS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernel/engine/data/clustering.h"
#include "kernel/engine/data/corpus.h"
#include "kernel/engine/data/tf_idf.h"
#include "kernel/engine/model/gpt.h"
#include "kernel/engine/plugins/component_set.h"

namespace moiety::engine {

/// [count, context] int64: the tokens of windows [first, first + count) of a domain.
at::Tensor window_tokens(const TokenStreams& streams, std::int64_t domain, std::int64_t first, std::int64_t count,
                         std::int64_t context);
/// tokens [W, L] → [W, d] float: the mean over a window's tokens of what enters the feed-forward of a layer. `between` is asked
/// after each batch whether to go on; stopped, nothing is given.
at::Tensor mean_states(const Gpt& model, std::int64_t layer, const at::Tensor& tokens,
                       const std::function<bool(std::int64_t done)>& between = {});

class ClusterLabels {
 public:
  static Result<std::unique_ptr<ClusterLabels>> open(const std::string& artifact, const ComponentSet& components);

  const Clustering& clustering() const { return clustering_; }
  /// Of the first `counts[d]` windows of each domain. `training`: they are training text, so that the windows that were divided
  /// keep the cluster they were put into; all others get the one they would be assigned to. `domains`: the corpus's, by name.
  std::vector<std::vector<std::int64_t>> of(const TokenStreams& streams, const std::vector<std::string>& domains,
                                            std::int64_t context, const std::vector<std::int64_t>& counts, bool training) const;

 private:
  explicit ClusterLabels(Clustering clustering) : clustering_(std::move(clustering)) {}
  at::Tensor assigned(const at::Tensor& tokens) const;

  Clustering clustering_;
  std::optional<TfIdf> tf_idf_;
  std::unique_ptr<Gpt> model_;  // whose states are the points
  std::int64_t layer_ = 0;
  std::optional<Instance> clusterer_;  // empty: the nearest centre says the same
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_CLUSTER_LABELS_H_
