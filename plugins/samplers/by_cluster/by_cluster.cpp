// One cluster a micro-batch: what is computed at once is of one kind, so that one expert (a projected network, a routed copy)
// serves it.
//
// For each micro-batch a cluster is drawn by its part of the pool's clustered windows, then its next windows, each once before
// any comes again; a cluster smaller than a micro-batch goes on with its next epoch. The last micro-batch of a step is shorter
// where the step is no whole number of them. Windows without a cluster are never read. Grangier et al., Plan Early, 2024,
// section 2.5, trains projected networks so.
#include <algorithm>
#include <numeric>

#include "../cluster_windows.h"
#include "moiety/sampler.h"

namespace {

using namespace moiety;

class ByCluster final : public Sampler {
 public:
  struct Options {
    StageInput clusters;
  };
  static constexpr Parameter parameters[] = {
      required<&Options::clusters>("clusters", "the clustering whose clusters are kept apart").of("clustering")};

  explicit ByCluster(const Options&) {}  // the engine reads the clustering that it names

  Needs needs() const override {
    Needs needs;
    needs.cluster_labels = true;
    return needs;
  }
  bool across_domains() const override { return true; }

  void start(const WindowTable& pool, const WindowTable*, Random random) override {
    windows_.start(pool, random.fork("order"));
    random_ = random.fork("cluster");
    shares_.assign(windows_.sizes().begin(), windows_.sizes().end());
    if (std::accumulate(shares_.begin(), shares_.end(), 0.0) < 1) throw std::invalid_argument("no window is in a cluster");
  }

  void draw(const Draw& wanted, std::vector<std::int64_t>& windows) override {
    std::int64_t left = std::accumulate(wanted.counts.begin(), wanted.counts.end(), std::int64_t{0});
    while (left > 0) {
      const std::int64_t size = wanted.micro_batch > 0 ? std::min(wanted.micro_batch, left) : left;
      const double u = random_.fork(static_cast<std::uint64_t>(drawn_)).uniform();
      const auto cluster = static_cast<std::size_t>(sampling::pick(shares_, u));
      for (std::int64_t i = 0; i < size; ++i) windows.push_back(windows_.next(cluster));
      ++drawn_;
      left -= size;
    }
  }

  void state(Archive& archive) override {
    windows_.state(archive);
    archive("micro_batches", drawn_);
  }

 private:
  sampling::ClusterWindows windows_;
  Random random_{0};
  std::vector<double> shares_;
  std::int64_t drawn_ = 0;  ///< micro-batches
};

}  // namespace

MOIETY_PLUGIN("by-cluster", "1.0.0", "One cluster a micro-batch",
              component<ByCluster>("by-cluster", 1, "Micro-batches of one cluster, drawn by its size",
                                   "Grangier et al., Plan Early, 2024, section 2.5"));
