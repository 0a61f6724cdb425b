// Every window of a domain once before any comes again, in random order.
//
// The order of domain d in epoch e is a shuffle keyed by (stream, d, e), so all that must be remembered is how far each domain
// has been read. Two arms that take different shares of a domain still read it in the same order.
#include <numeric>
#include <stdexcept>
#include <string>

#include "moiety/sampler.h"

namespace {

using namespace moiety;

class Uniform final : public Sampler {
 public:
  void start(const WindowTable& pool, const WindowTable*, Random random) override {
    if (pool.first.size() != pool.count.size()) throw std::invalid_argument("the window table has lists of different lengths");
    if (!read_.empty() && read_.size() != pool.count.size())
      throw std::invalid_argument("its state is of another number of domains");
    pool_ = pool;
    random_ = random;
    read_.resize(pool.count.size(), 0);  // what a checkpoint said, if it came first
    orders_.assign(pool.count.size(), {});
  }

  void draw(const Draw& wanted, std::vector<std::int64_t>& windows) override {
    const auto& counts = wanted.counts;
    if (counts.size() != read_.size())
      throw std::invalid_argument("counts for " + std::to_string(counts.size()) + " domains, started with " +
                                  std::to_string(read_.size()));
    for (std::size_t d = 0; d < counts.size(); ++d) {
      if (counts[d] > 0 && pool_.count[d] < 1)
        throw std::invalid_argument("domain " + std::to_string(d) + " has no windows to draw");
      for (std::int64_t i = 0; i < counts[d]; ++i) windows.push_back(next(d));
    }
  }

  void state(Archive& archive) override { archive("read", read_); }

 private:
  struct Order {
    std::int64_t epoch = -1;
    std::vector<std::int64_t> windows;
  };

  std::int64_t next(std::size_t d) {
    const std::int64_t epoch = read_[d] / pool_.count[d], position = read_[d] % pool_.count[d];
    Order& order = orders_[d];
    if (order.epoch != epoch) {
      order.epoch = epoch;
      order.windows.resize(static_cast<std::size_t>(pool_.count[d]));
      std::iota(order.windows.begin(), order.windows.end(), pool_.first[d]);
      random_.fork(d).fork(static_cast<std::uint64_t>(epoch)).shuffle(order.windows);
    }
    ++read_[d];
    return order.windows[static_cast<std::size_t>(position)];
  }

  WindowTable pool_;
  Random random_{0};
  std::vector<std::int64_t> read_;  ///< windows of each domain drawn so far, all epochs together
  std::vector<Order> orders_;       ///< of the epoch that each domain is in
};

}  // namespace

MOIETY_PLUGIN("uniform", "1.0.0", "Windows in random order",
              component<Uniform>("uniform", 1, "Each window once an epoch, in random order"));
