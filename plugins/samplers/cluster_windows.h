// Windows of each cluster, and the order in which they are read: every window once an epoch, in a shuffle keyed by (stream,
// cluster, epoch), so that all there is to remember is how many of each have been read. Used by samplers that choose among
// clusters.
#ifndef MOIETY_PLUGINS_SAMPLERS_CLUSTER_WINDOWS_H_
#define MOIETY_PLUGINS_SAMPLERS_CLUSTER_WINDOWS_H_

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "moiety/sampler.h"

namespace moiety::sampling {

/// Windows of each cluster; those without one (−1) are left out. An exception where there is no clustering.
inline std::vector<std::int64_t> cluster_sizes(const WindowTable& table, const char* what) {
  const auto windows = static_cast<std::size_t>(table.windows());
  if (table.clusters < 1 || table.cluster.size() != windows)
    throw std::invalid_argument("the clusters of the " + std::string(what) + "'s windows are not known");
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(table.clusters), 0);
  for (const std::int64_t cluster : table.cluster) {
    if (cluster >= table.clusters) throw std::invalid_argument("a window is of cluster " + std::to_string(cluster));
    if (cluster >= 0) ++sizes[static_cast<std::size_t>(cluster)];
  }
  return sizes;
}

class ClusterWindows {
 public:
  void start(const WindowTable& pool, Random random) {
    sizes_ = cluster_sizes(pool, "pool");
    if (!read_.empty() && read_.size() != sizes_.size())
      throw std::invalid_argument("its state is of another number of clusters");
    random_ = random;
    read_.resize(sizes_.size(), 0);  // what a checkpoint said, if it came first
    orders_.assign(sizes_.size(), {});
    members_.assign(sizes_.size(), {});
    for (std::size_t window = 0; window < pool.cluster.size(); ++window) {
      if (pool.cluster[window] >= 0)
        members_[static_cast<std::size_t>(pool.cluster[window])].push_back(static_cast<std::int64_t>(window));
    }
  }
  std::int64_t next(std::size_t cluster) {
    const std::int64_t epoch = read_[cluster] / sizes_[cluster], position = read_[cluster] % sizes_[cluster];
    Order& order = orders_[cluster];
    if (order.epoch != epoch) {
      order.epoch = epoch;
      order.windows = members_[cluster];
      random_.fork(cluster).fork(static_cast<std::uint64_t>(epoch)).shuffle(order.windows);
    }
    ++read_[cluster];
    return order.windows[static_cast<std::size_t>(position)];
  }
  void state(Archive& archive) { archive("read", read_); }

  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  const std::vector<std::int64_t>& read() const { return read_; }  ///< of each cluster, all epochs together

 private:
  struct Order {
    std::int64_t epoch = -1;
    std::vector<std::int64_t> windows;
  };
  Random random_{0};
  std::vector<std::int64_t> sizes_, read_;
  std::vector<std::vector<std::int64_t>> members_;
  std::vector<Order> orders_;
};

/// The first index at which the sum of `weights` passes u of their total; −1: all are zero. Weights are not negative.
inline std::ptrdiff_t pick(const std::vector<double>& weights, double u) {
  double total = 0;
  for (const double weight : weights) total += weight;
  double sum = 0;
  std::ptrdiff_t last = -1;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] > 0)) continue;
    last = static_cast<std::ptrdiff_t>(i);
    sum += weights[i];
    if (u * total < sum) break;
  }
  return last;
}

}  // namespace moiety::sampling

#endif  // MOIETY_PLUGINS_SAMPLERS_CLUSTER_WINDOWS_H_
