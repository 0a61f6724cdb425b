// Sequences of different lengths packed one after another, without padding.
#ifndef MOIETY_KERNEL_ENGINE_LAYERS_SPANS_H_
#define MOIETY_KERNEL_ENGINE_LAYERS_SPANS_H_

#include <cstdint>
#include <vector>

namespace moiety::engine {

/// Sequence i has the rows [starts[i], starts[i + 1]); the first start is 0, the last one the number of rows.
struct Spans {
  std::vector<std::int64_t> starts{0};

  std::int64_t count() const { return static_cast<std::int64_t>(starts.size()) - 1; }
  std::int64_t rows() const { return starts.back(); }
  std::int64_t begin(std::int64_t i) const { return starts[static_cast<std::size_t>(i)]; }
  std::int64_t length(std::int64_t i) const { return starts[static_cast<std::size_t>(i) + 1] - begin(i); }
  void add(std::int64_t length) { starts.push_back(starts.back() + length); }
  /// The length of all sequences when they are equally long, else 0.
  std::int64_t common_length() const {
    for (std::int64_t i = 1; i < count(); ++i)
      if (length(i) != length(0)) return 0;
    return count() > 0 ? length(0) : 0;
  }
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_LAYERS_SPANS_H_
