// Replay: a fixed share of one domain, often what a model was trained on before, and the rest in proportion to the sizes of the
// others. BAM's experts see 10 % general text that way (Zhang et al., "BAM! Just like that", NeurIPS 2024, section 4).
#include <stdexcept>

#include "../named_shares.h"
#include "moiety/mixing_scheduler.h"

namespace {

using namespace moiety;

class Replay final : public MixingScheduler {
 public:
  struct Options {
    std::string of;
    double share;
  };
  static constexpr Parameter parameters[] = {required<&Options::of>("of", "the domain that is replayed"),
                                             param<&Options::share>("share", 0.1, "of all windows").above(0).below(1)};

  explicit Replay(Options options) : options_(std::move(options)) {}

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
    std::vector<double> result(names.size(), 0.0);
    const bool read = std::find(names.begin(), names.end(), options_.of) != names.end();
    if (!read && mixing::near_name(options_.of, names).empty()) {
      problems.add("of", "the stage reads no domain `" + options_.of + "`: select it in `data`, beside the others");
      return result;
    }
    const std::size_t of = mixing::find_domain(options_.of, names, windows, "of", problems);
    if (of == names.size() || windows.size() != names.size()) return result;
    double others = 0;
    for (std::size_t d = 0; d < names.size(); ++d)
      if (d != of) others += static_cast<double>(windows[d]);
    if (others < 1) {
      problems.add("of", "no other domain than `" + options_.of + "` has a training window");
      return result;
    }
    for (std::size_t d = 0; d < names.size(); ++d)
      result[d] = d == of ? options_.share : (1 - options_.share) * static_cast<double>(windows[d]) / others;
    return result;
  }

  Options options_;
  std::vector<double> shares_;
};

}  // namespace

MOIETY_PLUGIN("replay", "1.0.0", "A fixed share of one domain",
              component<Replay>("replay", 1, "A fixed share of one domain, the rest as the sizes of the others",
                                "Zhang et al., BAM, NeurIPS 2024, section 4"));
