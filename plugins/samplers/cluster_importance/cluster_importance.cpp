// SLM-is: reads generic text so that its histogram over clusters is that of a small target set.
//
//   L(target) ≈ Σ_c P(c | target) E_{x of c} ℓ(x) = E_{x generic} [w(x) ℓ(x)],   w(x) = P(c(x) | target) / P(c(x) | generic)
//
// by resampling, not by weights: a cluster is drawn from P(c | target), then its next window, each once before any comes again.
// Clusters of the target that have no window in the pool are left out and the others share what they had; `smoothing` windows are
// added to the target's count of every cluster (not in the paper; for more clusters than target windows / 4).
//
// A cluster that has been read `epochs` times is closed, and the others go on in their proportions; a run of more windows than
// that allows in all is refused. Reports the largest number of repeats, S · P(c | target) / N_c, as read, and the part of the
// generic set that counts, ESS / N = 1 / Σ P(c | target)² / P(c | generic) = 1 / (1 + χ²). Grangier et al., "Need a small
// specialized language model? Plan early!", 2024, section 2.4.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "../cluster_windows.h"
#include "moiety/report.h"
#include "moiety/sampler.h"

namespace {

using namespace moiety;

std::string readable(double number) {
  std::string text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

class ClusterImportance final : public Sampler {
 public:
  struct Options {
    StageInput clusters;
    DataSelection target;
    double epochs;
    std::int64_t keep;
    double smoothing;
  };
  static constexpr Parameter parameters[] = {
      required<&Options::clusters>("clusters", "the clustering of pool and target").of("clustering"),
      required<&Options::target>("target", "the windows whose clusters are imitated"),
      param<&Options::epochs>("epochs", 0.0, "a cluster's windows are read at most so often; 0: as often as they are drawn")
          .at_least(0)
          .in("epochs"),
      param<&Options::keep>("keep", 0, "only so many clusters, the most frequent of the target; 0: all")
          .at_least(0)
          .in("clusters"),
      param<&Options::smoothing>("smoothing", 0.0, "windows added to the target's count of each cluster")
          .at_least(0)
          .in("windows")};
  static constexpr Output outputs[] = {
      metric("repeats", "epochs", -1, "how often the windows of the most repeated cluster were read"),
      metric("effective_share", "share", 0, "of the generic set, in which importance weights would leave as much information"),
      metric("missing", "share", 0, "of the target, in clusters that the pool does not have or that are not kept")};

  explicit ClusterImportance(Options options) : options_(std::move(options)) {}

  Needs needs() const override {
    Needs needs;
    needs.cluster_labels = true;
    return needs;
  }
  bool across_domains() const override { return true; }

  void check(const Facts& facts, Problems& problems) const override {
    if (facts.clusters > 0 && options_.keep > facts.clusters)
      problems.add("keep",
                   "the clustering has " + std::to_string(facts.clusters) + " clusters, not " + std::to_string(options_.keep));
  }

  void start(const WindowTable& pool, const WindowTable* target, Random random) override {
    if (target == nullptr) throw std::invalid_argument("it was given no target windows");
    const std::vector<std::int64_t> wanted = sampling::cluster_sizes(*target, "target");
    windows_.start(pool, random.fork("order"));
    random_ = random.fork("cluster");
    pool_windows_ = pool.windows();
    if (wanted.size() != windows_.sizes().size()) throw std::invalid_argument("target and pool are of different clusterings");
    std::vector<double> counts(wanted.begin(), wanted.end());
    double all = 0;
    for (double& count : counts) all += count += options_.smoothing;
    if (!(all > 0)) throw std::invalid_argument("no window of the target is in a cluster");

    std::vector<std::size_t> order(counts.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return counts[a] > counts[b]; });
    shares_.assign(counts.size(), 0.0);
    double there = 0;
    std::int64_t kept = 0;
    for (const std::size_t c : order) {
      if (windows_.sizes()[c] < 1 || (options_.keep > 0 && kept == options_.keep)) continue;
      there += shares_[c] = counts[c];
      ++kept;
    }
    if (!(there > 0)) throw std::invalid_argument("the pool has no window of the target's clusters");
    for (double& share : shares_) share /= there;
    missing_ = 1 - there / all;
  }

  void draw(const Draw& wanted, std::vector<std::int64_t>& windows) override {
    std::int64_t count = 0;
    for (const std::int64_t n : wanted.counts) count += n;
    std::vector<double> open = shares_;
    for (std::size_t c = 0; c < open.size(); ++c)
      if (windows_.read()[c] >= most(c)) open[c] = 0;
    std::int64_t drawn = std::accumulate(windows_.read().begin(), windows_.read().end(), std::int64_t{0});
    for (std::int64_t i = 0; i < count; ++i, ++drawn) {
      const std::ptrdiff_t c = sampling::pick(open, random_.fork(static_cast<std::uint64_t>(drawn)).uniform());
      if (c < 0)
        throw std::runtime_error("after " + std::to_string(drawn) + " windows all clusters were read " +
                                 readable(options_.epochs) + " times");
      const auto cluster = static_cast<std::size_t>(c);
      windows.push_back(windows_.next(cluster));
      if (windows_.read()[cluster] >= most(cluster)) open[cluster] = 0;
    }
  }

  void check_budget(std::int64_t run_windows, Problems& problems) const override {
    if (options_.epochs == 0) return;
    std::int64_t allowed = 0, there = 0, clusters = 0;
    for (std::size_t c = 0; c < shares_.size(); ++c) {
      if (!(shares_[c] > 0)) continue;
      ++clusters;
      there += windows_.sizes()[c];
      allowed += most(c);
    }
    if (run_windows > allowed)
      problems.add("epochs", "the run has " + std::to_string(run_windows) + " windows, but " + readable(options_.epochs) +
                                 " epochs of the " + std::to_string(there) + " windows in the target's " +
                                 std::to_string(clusters) + " clusters are " + std::to_string(allowed));
  }

  void state(Archive& archive) override { windows_.state(archive); }

  void report(Report& report) const override {
    double repeats = 0, chi = 0;
    for (std::size_t c = 0; c < shares_.size(); ++c) {
      if (!(shares_[c] > 0)) continue;
      const auto size = static_cast<double>(windows_.sizes()[c]);
      repeats = std::max(repeats, static_cast<double>(windows_.read()[c]) / size);
      chi += shares_[c] * shares_[c] / (size / static_cast<double>(pool_windows_));
    }
    report.metric("repeats", repeats);
    report.metric("effective_share", 1 / chi);
    report.metric("missing", missing_);
  }

 private:
  /// Windows of a cluster that may be read in all.
  std::int64_t most(std::size_t cluster) const {
    if (options_.epochs == 0) return std::numeric_limits<std::int64_t>::max();
    return static_cast<std::int64_t>(std::floor(options_.epochs * static_cast<double>(windows_.sizes()[cluster]) * (1 + 1e-12)));
  }

  Options options_;
  sampling::ClusterWindows windows_;
  Random random_{0};
  std::vector<double> shares_;  ///< P(c | target) of the clusters that are kept and there
  std::int64_t pool_windows_ = 0;
  double missing_ = 0;
};

}  // namespace

MOIETY_PLUGIN("cluster-importance", "1.0.0", "Importance sampling by clusters",
              component<ClusterImportance>("cluster-importance", 1,
                                           "Generic text resampled to a target's histogram over clusters",
                                           "Grangier et al., Plan Early, 2024, section 2.4"));
