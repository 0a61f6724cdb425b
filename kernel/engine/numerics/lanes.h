// Rows of a batch divided among threads in fixed parts, so that the same number of threads gives the same bits.
#ifndef MOIETY_KERNEL_ENGINE_NUMERICS_LANES_H_
#define MOIETY_KERNEL_ENGINE_NUMERICS_LANES_H_

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace moiety::engine {

/// Threads that `count` pieces of work are divided among.
inline std::int64_t lanes_for(std::int64_t count) {
  return std::max<std::int64_t>(1, std::min<std::int64_t>(count, at::get_num_threads()));
}

/// body(lane, begin, end) for contiguous parts of [0, count), one a lane.
template <class Body>
void in_lanes(std::int64_t count, std::int64_t lanes, const Body& body) {
  const auto part = [&](std::int64_t lane) { return count * lane / lanes; };
  if (lanes == 1) {
    body(std::int64_t{0}, std::int64_t{0}, count);
    return;
  }
  at::parallel_for(0, lanes, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t lane = first; lane < last; ++lane) body(lane, part(lane), part(lane + 1));
  });
}

/// As in_lanes, in blocks: body(lane, first row, rows) with at most `block` rows a call, a multiple of 8. Blocks are equally
/// large, so that none is left over that would be too small to be fast.
template <class Body>
void in_row_blocks(std::int64_t rows, std::int64_t block, std::int64_t lanes, const Body& body) {
  const std::int64_t wanted = (rows + block - 1) / block;
  const std::int64_t size = wanted > 0 ? ((rows + wanted - 1) / wanted + 7) / 8 * 8 : block;
  const std::int64_t blocks = (rows + size - 1) / size;
  in_lanes(blocks, std::min(lanes, std::max<std::int64_t>(1, blocks)),
           [&](std::int64_t lane, std::int64_t begin, std::int64_t end) {
             for (std::int64_t b = begin; b < end; ++b) body(lane, b * size, std::min(size, rows - b * size));
           });
}

/// Memory for a moment, not set to anything.
class Scratch {
 public:
  explicit Scratch(std::int64_t size) : values_(new float[static_cast<std::size_t>(size)]) {}
  float* data() const { return values_.get(); }

 private:
  std::unique_ptr<float[]> values_;
};

/// A sum that each lane makes for itself, added up in the order of the lanes.
class LaneSums {
 public:
  LaneSums(std::int64_t lanes, std::int64_t size) : lanes_(lanes), size_(size), values_(static_cast<std::size_t>(lanes * size)) {}
  float* of(std::int64_t lane) { return values_.data() + lane * size_; }
  /// Adds up into the first lane's and gives it.
  float* total() {
    float* sum = values_.data();
    for (std::int64_t lane = 1; lane < lanes_; ++lane) {
      const float* other = of(lane);
      for (std::int64_t i = 0; i < size_; ++i) sum[i] += other[i];
    }
    return sum;
  }

 private:
  std::int64_t lanes_, size_;
  std::vector<float> values_;
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_NUMERICS_LANES_H_
