// As `uniform`, but no domain is read more than `epochs` times: repeated text is worth less each time, and a mixture that asks
// for more of a small domain than there is should say so instead of repeating it.
//
// A run of more windows than all domains have in so many epochs is refused when it starts; a mixture that wants too much of one
// domain stops it there, with the numbers. Windows come in the very order of `uniform`.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

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

class Capped final : public Sampler {
 public:
  struct Options {
    double epochs;
  };
  static constexpr Parameter parameters[] = {
      param<&Options::epochs>("epochs", 4.0, "how often a domain's windows may be read").above(0).in("epochs")};
  static constexpr Output outputs[] = {metric("repeats", "epochs", -1, "how often the most repeated domain was read")};

  explicit Capped(const Options& options) : options_(options) {}

  void check(const Facts& facts, Problems& problems) const override {
    if (!facts.domain_windows.empty() && facts.run_windows > 0) refuse(facts.domain_windows, facts.run_windows, problems);
  }
  void check_budget(std::int64_t run_windows, Problems& problems) const override { refuse(pool_.count, run_windows, problems); }

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
    if (wanted.counts.size() != read_.size())
      throw std::invalid_argument("counts for " + std::to_string(wanted.counts.size()) + " domains, started with " +
                                  std::to_string(read_.size()));
    for (std::size_t d = 0; d < read_.size(); ++d) {
      if (read_[d] + wanted.counts[d] > most(pool_.count[d]))
        throw std::runtime_error("the mixture asks for " + std::to_string(read_[d] + wanted.counts[d]) + " windows of domain " +
                                 std::to_string(d) + " by step " + std::to_string(wanted.step) + ", but " +
                                 readable(options_.epochs) + " epochs of its " + std::to_string(pool_.count[d]) + " are " +
                                 std::to_string(most(pool_.count[d])));
      for (std::int64_t i = 0; i < wanted.counts[d]; ++i) windows.push_back(next(d));
    }
  }

  void state(Archive& archive) override { archive("read", read_); }
  void report(Report& report) const override {
    double repeats = 0;
    for (std::size_t d = 0; d < read_.size(); ++d) {
      if (pool_.count[d] > 0) repeats = std::max(repeats, static_cast<double>(read_[d]) / static_cast<double>(pool_.count[d]));
    }
    report.metric("repeats", repeats);
  }

 private:
  struct Order {
    std::int64_t epoch = -1;
    std::vector<std::int64_t> windows;
  };

  /// Windows that may be read of a domain that has `count`.
  std::int64_t most(std::int64_t count) const {
    return static_cast<std::int64_t>(std::floor(options_.epochs * static_cast<double>(count) * (1 + 1e-12)));
  }
  void refuse(const std::vector<std::int64_t>& counts, std::int64_t run_windows, Problems& problems) const {
    std::int64_t there = 0, allowed = 0;
    for (const std::int64_t count : counts) {
      there += count;
      allowed += most(count);
    }
    if (run_windows > allowed)
      problems.add("epochs", "the run has " + std::to_string(run_windows) + " windows, but " + readable(options_.epochs) +
                                 " epochs of all " + std::to_string(there) + " are " + std::to_string(allowed));
  }
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

  Options options_;
  WindowTable pool_;
  Random random_{0};
  std::vector<std::int64_t> read_;  ///< windows of each domain drawn so far, all epochs together
  std::vector<Order> orders_;       ///< of the epoch that each domain is in
};

}  // namespace

MOIETY_PLUGIN("capped", "1.0.0", "Windows in random order, with a cap of epochs",
              component<Capped>("capped", 1, "As uniform, but no domain is read more than `epochs` times"));
