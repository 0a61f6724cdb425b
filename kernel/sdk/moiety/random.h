// Randomness as a named stream: a key of (seed, component, purpose, step, …), never a generator with a past. So no random state
// is saved, a step can be repeated, and arms that draw different amounts stay paired.
//
// Philox 4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#ifndef MOIETY_RANDOM_H_
#define MOIETY_RANDOM_H_

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace moiety {

class Random {
 public:
  explicit Random(std::uint64_t seed) : key_(mix(seed ^ 0x6D6F69657479ULL)) {}

  /// An independent stream for a purpose or an index. Forking does not advance this stream.
  Random fork(std::string_view name) const {
    std::uint64_t h = 0xCBF29CE484222325ULL;
    for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
    return Random(mix(key_ ^ mix(h)), 0);
  }
  Random fork(std::uint64_t index) const { return Random(mix(key_ + 0x9E3779B97F4A7C15ULL * (index + 1)), 0); }

  std::uint64_t bits() {
    if (used_ == 2) refill();
    return buffer_[used_++];
  }
  /// In [0, 1), 53 bits.
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }
  /// Standard normal (Box-Muller, one of the pair).
  double normal() {
    const double u = 1.0 - uniform();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * uniform());
  }
  /// In [0, n), without bias; n > 0.
  std::int64_t below(std::int64_t n) {
    const auto range = static_cast<std::uint64_t>(n);
    const std::uint64_t limit = (~0ULL) - (~0ULL) % range;
    std::uint64_t draw = bits();
    while (draw >= limit) draw = bits();
    return static_cast<std::int64_t>(draw % range);
  }
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
  }

  /// The four words of Philox 4x32-10 for a counter and a key; public so that the known answers can be tested.
  static std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t a = 0xD2511F53ULL * counter[0], b = 0xCD9E8D57ULL * counter[2];
      counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
                 static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
      key[0] += 0x9E3779B9U;
      key[1] += 0xBB67AE85U;
    }
    return counter;
  }

 private:
  Random(std::uint64_t key, std::uint64_t counter) : key_(key), counter_(counter) {}
  static std::uint64_t mix(std::uint64_t x) {  // splitmix64's finaliser
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
  }
  void refill() {
    const auto words = philox({static_cast<std::uint32_t>(counter_), static_cast<std::uint32_t>(counter_ >> 32), 0, 0},
                              {static_cast<std::uint32_t>(key_), static_cast<std::uint32_t>(key_ >> 32)});
    ++counter_;
    buffer_ = {(static_cast<std::uint64_t>(words[0]) << 32) | words[1], (static_cast<std::uint64_t>(words[2]) << 32) | words[3]};
    used_ = 0;
  }

  std::uint64_t key_, counter_ = 0;
  std::array<std::uint64_t, 2> buffer_{};
  std::size_t used_ = 2;
};

}  // namespace moiety

#endif  // MOIETY_RANDOM_H_
