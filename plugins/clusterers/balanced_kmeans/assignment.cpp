#include "assignment.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
using Move = std::pair<double, std::int32_t>;  ///< (what moving costs, the point)

/// Min-cost flow by successive shortest paths. Nodes are the clusters and, last, a pool of places: an arc from a cluster to the
/// pool takes one more of the places between ⌊n/k⌋ and ⌈n/k⌉. All that happens keeps reduced lengths, length + price of the one
/// end − price of the other, at or above zero; so the end is optimal.
class Flow {
 public:
  Flow(const std::vector<double>& cost, std::int64_t points, std::int64_t clusters, std::vector<double>& prices)
      : cost_(cost),
        points_(static_cast<std::size_t>(points)),
        k_(static_cast<std::size_t>(clusters)),
        low_(points / clusters),
        high_((points + clusters - 1) / clusters),
        label_(points_),
        members_(k_),
        heaps_(k_),
        places_(k_),
        excess_(k_ + 1, 0),
        price_(prices) {
    price_.resize(k_ + 1, 0.0);
  }

  std::vector<std::int32_t> solve() {
    start();
    for (std::size_t from = 0; from <= k_; ++from) {
      while (excess_[from] > 0) send_from(from);
    }
    return std::move(label_);
  }

 private:
  double cost(std::size_t point, std::size_t cluster) const { return cost_[point * k_ + cluster]; }

  /// Every point where it is cheapest at these prices: then no reduced length is below zero, whatever the prices are.
  void start() {
    for (std::size_t p = 0; p < points_; ++p) {
      std::size_t best = 0;
      for (std::size_t c = 1; c < k_; ++c) {
        if (cost(p, c) - price_[c] < cost(p, best) - price_[best]) best = c;
      }
      label_[p] = static_cast<std::int32_t>(best);
      members_[best].push_back(static_cast<std::int32_t>(p));
    }
    excess_[k_] = -static_cast<std::int64_t>(points_);
    for (std::size_t c = 0; c < k_; ++c) {
      const auto size = static_cast<std::int64_t>(members_[c].size());
      places_[c] = price_[c] > price_[k_] ? low_ : price_[c] < price_[k_] ? high_ : std::clamp(size, low_, high_);
      excess_[c] = size - places_[c];
      excess_[k_] += places_[c];
    }
  }

  /// The moves out of a cluster, cheapest first, for each destination; made when a path first comes by, which for most never
  /// happens.
  std::vector<std::vector<Move>>& heaps_of(std::size_t from) {
    auto& heaps = heaps_[from];
    if (!heaps.empty()) return heaps;
    heaps.resize(k_);
    for (std::size_t to = 0; to < k_; ++to) {
      if (to == from) continue;
      for (const std::int32_t point : members_[from]) {
        const auto p = static_cast<std::size_t>(point);
        if (label_[p] == static_cast<std::int32_t>(from)) heaps[to].emplace_back(cost(p, to) - cost(p, from), point);
      }
      std::make_heap(heaps[to].begin(), heaps[to].end(), std::greater<>());
    }
    return heaps;
  }

  /// The cheapest move between two clusters; entries of points that have left are dropped when they come up.
  const Move* cheapest(std::size_t from, std::size_t to) {
    auto& heap = heaps_of(from)[to];
    while (!heap.empty() && label_[static_cast<std::size_t>(heap.front().second)] != static_cast<std::int32_t>(from)) {
      std::pop_heap(heap.begin(), heap.end(), std::greater<>());
      heap.pop_back();
    }
    return heap.empty() ? nullptr : &heap.front();
  }

  void enter(std::int32_t point, std::size_t to) {
    const auto p = static_cast<std::size_t>(point);
    label_[p] = static_cast<std::int32_t>(to);
    members_[to].push_back(point);
    if (heaps_[to].empty()) return;
    for (std::size_t c = 0; c < k_; ++c) {
      if (c == to) continue;
      auto& heap = heaps_[to][c];
      heap.emplace_back(cost(p, c) - cost(p, to), point);
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
  }

  double length(std::size_t from, std::size_t to) {
    if (from == k_)
      return places_[to] > low_ ? 0 : infinity;  // the pool takes a place back from a cluster, which must lose a point
    if (to == k_) return places_[from] < high_ ? 0 : infinity;  // a cluster gets a place for a point it has too many
    const Move* move = cheapest(from, to);
    return move == nullptr ? infinity : move->first;
  }

  /// One unit along the shortest path to the nearest node that lacks one (Dijkstra on reduced lengths).
  void send_from(std::size_t source) {
    std::vector<double> distance(k_ + 1, infinity);
    std::vector<std::size_t> before(k_ + 1, source);
    std::vector<bool> done(k_ + 1, false);
    distance[source] = 0;
    std::size_t target = source;
    for (;;) {
      std::size_t nearest = k_ + 1;
      for (std::size_t v = 0; v <= k_; ++v) {
        if (!done[v] && distance[v] < infinity && (nearest > k_ || distance[v] < distance[nearest])) nearest = v;
      }
      done[nearest] = true;  // there is one: the sizes sum up, and any point may move anywhere
      if (excess_[nearest] < 0) {
        target = nearest;
        break;
      }
      for (std::size_t v = 0; v <= k_; ++v) {
        if (done[v] || v == nearest) continue;
        const double direct = length(nearest, v);
        if (direct == infinity) continue;
        // Below zero only by rounding.
        const double through = distance[nearest] + std::max(0.0, direct + price_[nearest] - price_[v]);
        if (through < distance[v]) {
          distance[v] = through;
          before[v] = nearest;
        }
      }
    }
    for (std::size_t v = 0; v <= k_; ++v) price_[v] += std::min(distance[v], distance[target]);
    move_along(source, target, before);
  }

  void move_along(std::size_t source, std::size_t target, const std::vector<std::size_t>& before) {
    // The moves are looked up before any is made: a point that comes into a cluster must not go on in the same round.
    std::vector<std::pair<std::size_t, std::int32_t>> moves;  // (to, point)
    for (std::size_t v = target; v != source; v = before[v]) {
      const std::size_t u = before[v];
      if (u == k_)
        --places_[v];
      else if (v == k_)
        ++places_[u];
      else
        moves.emplace_back(v, cheapest(u, v)->second);
    }
    for (const auto& [to, point] : moves) enter(point, to);
    --excess_[source];
    ++excess_[target];
  }

  const std::vector<double>& cost_;
  const std::size_t points_, k_;
  const std::int64_t low_, high_;
  std::vector<std::int32_t> label_;
  std::vector<std::vector<std::int32_t>> members_;  ///< all that ever entered; label_ says who is still there
  std::vector<std::vector<std::vector<Move>>> heaps_;
  std::vector<std::int64_t> places_;  ///< of each cluster, between low and high
  std::vector<std::int64_t> excess_;  ///< points without a place; of the pool: places too many
  std::vector<double>& price_;        ///< the dual solution: of each cluster and of the pool
};

}  // namespace

std::vector<std::int32_t> balanced_assignment(const std::vector<double>& cost, std::int64_t points, std::int64_t clusters,
                                              std::vector<double>& prices) {
  return Flow(cost, points, clusters, prices).solve();
}
