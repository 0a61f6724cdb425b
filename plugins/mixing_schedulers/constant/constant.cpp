// Fixed shares from beginning to end: the same for every domain, or as `weights` says.
#include <algorithm>
#include <cmath>

#include "../named_shares.h"
#include "moiety/mixing_scheduler.h"

namespace {

using namespace moiety;

class Constant final : public MixingScheduler {
 public:
  struct Options {
    Shares weights;
  };
  static constexpr Parameter parameters[] = {
      optional<&Options::weights>("weights", "a share for each domain; one not named gets none; left out: equal shares")};

  explicit Constant(Options options) : options_(std::move(options)) {}

  void check(const Facts& facts, Problems& problems) const override {
    if (!facts.domains.empty()) shares(facts.domains, facts.domain_windows, problems);
  }
  void start(const Domains& domains) override {
    Problems problems;
    shares_ = shares(domains.names, domains.windows, problems);
    mixing::refuse(problems);
  }
  Mixture mixture(const Progress&) const override { return {shares_, {}}; }

 private:
  std::vector<double> shares(const std::vector<std::string>& names, const std::vector<std::int64_t>& windows,
                             Problems& problems) const {
    if (options_.weights.empty()) return std::vector<double>(names.size(), 1.0);
    std::vector<double> result(names.size(), 0.0);
    std::vector<bool> given(names.size(), false);
    for (const auto& [name, weight] : options_.weights) {
      if (!std::isfinite(weight) || weight < 0) {
        problems.add("weights", "the share of `" + name + "` must be a number of at least 0");
        continue;
      }
      const auto found = std::find(names.begin(), names.end(), name);
      const auto i = static_cast<std::size_t>(found - names.begin());
      if (found == names.end())
        problems.add("weights", "the corpus has no domain `" + name + "`" + mixing::near_name(name, names));
      else if (given[i])
        problems.add("weights", "domain `" + name + "` is given twice");
      else if (weight > 0 && i < windows.size() && windows[i] < 1)
        problems.add("weights", "domain `" + name + "` has no training window");
      else {
        given[i] = true;
        result[i] = weight;
      }
    }
    if (problems.list().empty() && std::all_of(result.begin(), result.end(), [](double share) { return share == 0; })) {
      problems.add("weights", "are all zero");
    }
    return result;
  }

  Options options_;
  std::vector<double> shares_;
};

}  // namespace

MOIETY_PLUGIN("constant", "1.0.0", "Fixed shares", component<Constant>("constant", 1, "The same shares from beginning to end"));
