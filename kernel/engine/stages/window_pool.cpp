#include "kernel/engine/stages/window_pool.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <stdexcept>

namespace moiety::engine {

WindowPool::WindowPool(const TokenStreams& text, std::int64_t length) : streams(text), context(length) {
  std::int64_t first = 0;
  for (std::int64_t d = 0; d < streams.domains(); ++d) {
    table.first.push_back(first);
    table.count.push_back(streams.windows(d, context));
    first += table.count.back();
  }
}

std::int64_t WindowPool::domain(std::int64_t window) const {
  if (window < 0 || window >= table.windows()) throw std::out_of_range("there is no window " + std::to_string(window));
  // The last domain that begins at or before it: empty ones begin where the next one does.
  return std::upper_bound(table.first.begin(), table.first.end(), window) - table.first.begin() - 1;
}

std::pair<std::int64_t, std::int64_t> WindowPool::locate(std::int64_t window) const {
  const std::int64_t d = domain(window);
  return {d, window - table.first[static_cast<std::size_t>(d)]};
}

FixedWindows WindowPool::locate(const std::vector<std::int64_t>& windows) const {
  FixedWindows places;
  places.reserve(windows.size());
  for (const std::int64_t window : windows) places.push_back(locate(window));
  return places;
}

void WindowPool::set_clusters(const std::vector<std::vector<std::int64_t>>& labels, std::int64_t count) {
  table.cluster.clear();
  for (const auto& of_domain : labels) table.cluster.insert(table.cluster.end(), of_domain.begin(), of_domain.end());
  if (static_cast<std::int64_t>(table.cluster.size()) != table.windows())
    throw std::logic_error("not one cluster for each window");
  table.clusters = count;
}

std::vector<std::int64_t> draw_windows(const WindowPool& pool, const Instance& sampler, const std::vector<std::int64_t>& due,
                                       std::int64_t step, std::int64_t micro_batch) {
  const WindowTable& table = pool.table;
  std::vector<std::int64_t> counts(table.count.size()), drawn;
  for (const std::int64_t domain : due) ++counts[static_cast<std::size_t>(domain)];
  call("draw", sampler, [&] { sampler.as<Sampler>().draw({counts, step, micro_batch}, drawn); });
  if (drawn.size() != due.size())
    throw ComponentFailure(sampler.name, "draw",
                           std::to_string(drawn.size()) + " windows were drawn, not " + std::to_string(due.size()));
  for (const std::int64_t window : drawn)
    if (window < 0 || window >= table.windows())
      throw ComponentFailure(sampler.name, "draw", "there is no window " + std::to_string(window));
  if (call("across_domains", sampler, [&] { return sampler.as<Sampler>().across_domains(); })) return drawn;
  std::vector<std::size_t> next(counts.size());
  for (std::size_t d = 1; d < counts.size(); ++d) next[d] = next[d - 1] + static_cast<std::size_t>(counts[d - 1]);
  std::vector<std::int64_t> windows;
  windows.reserve(due.size());
  for (const std::int64_t domain : due) {
    windows.push_back(drawn[next[static_cast<std::size_t>(domain)]++]);
    if (pool.domain(windows.back()) != domain)
      throw ComponentFailure(sampler.name, "draw", "a window is not of the domain asked for");
  }
  return windows;
}

at::Tensor PoolData::tokens(const Windows& windows) const {
  const std::int64_t length = pool_.context;
  at::Tensor all = at::empty({static_cast<std::int64_t>(windows.size()), length + 1}, at::kLong);
  std::vector<std::int64_t> targets(static_cast<std::size_t>(length));
  auto* row = all.data_ptr<std::int64_t>();
  for (const std::int64_t window : windows) {
    const auto [domain, index] = pool_.locate(window);
    pool_.streams.window(domain, index, length, row, targets.data());
    row[length] = targets.back();
    row += length + 1;
  }
  return all;
}

at::Tensor token_counts(const TokenStreams& streams, std::int64_t context, std::int64_t vocabulary) {
  at::Tensor counts = at::zeros({vocabulary}, at::kLong);
  auto* count = counts.data_ptr<std::int64_t>();
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(context)), targets(static_cast<std::size_t>(context));
  for (std::int64_t d = 0; d < streams.domains(); ++d)
    for (std::int64_t i = 0; i < streams.windows(d, context); ++i) {
      streams.window(d, i, context, tokens.data(), targets.data());
      if (i == 0) ++count[tokens.front()];
      for (const std::int64_t token : targets) ++count[token];
    }
  return counts;
}

}  // namespace moiety::engine
