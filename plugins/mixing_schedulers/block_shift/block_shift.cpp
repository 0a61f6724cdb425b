// Block shift: the share of one domain is `shift` higher for `length`, then lower by as much for the same length, then as
// `weights` says. The others make room in proportion to their weights. So what each domain gets in the whole run does not change,
// only its order: Δ(t), how far the domain is ahead, is a triangle, and a Lie bracket s_k predicts δL_k ≈ shift · τ² · s_k (probe
// lie-bracket).
//
// A step across an edge gets the mean over its windows, so budgets are kept also where the length is no whole number of steps.
// The ledger need not conserve them: the shares add up by themselves.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <tuple>

#include "../named_shares.h"
#include "moiety/mixing_scheduler.h"

namespace {

using namespace moiety;
using mixing::readable;

class BlockShift final : public MixingScheduler {
 public:
  struct Options {
    Shares weights;
    std::string domain;
    double shift;
    Budget length;
  };
  static constexpr Parameter parameters[] = {
      optional<&Options::weights>("weights", "a share for each domain before and after; left out: as their sizes"),
      required<&Options::domain>("domain", "whose share is shifted"),
      required<&Options::shift>("shift", "added to its share in the first half of the block, taken in the second").range(-1, 1),
      optional<&Options::length>("length", "of each half, in tokens, examples (windows) or steps; left out: half of the run")};

  explicit BlockShift(Options options) : options_(std::move(options)) {}

  void check(const Facts& facts, Problems& problems) const override {
    if (!facts.domains.empty()) prepare(facts.domains, facts.domain_windows, problems);
    const std::string& unit = options_.length.unit;
    if (!unit.empty() && unit != "tokens" && unit != "examples" && unit != "steps")
      problems.add("length", "must be in tokens, examples (windows) or steps, but is in " + unit);
    else if (in_windows() && facts.run_windows > 0 && (unit == "examples" || facts.window_tokens > 0))
      fits(windows_of(facts.window_tokens), static_cast<double>(facts.run_windows), "windows", problems);
  }

  void start(const Domains& domains) override {
    Problems problems;
    Facts facts;
    facts.domains = domains.names;
    facts.domain_windows = domains.windows;
    facts.run_windows = domains.run_windows;
    facts.window_tokens = domains.window_tokens;
    check(facts, problems);
    if (options_.length.unit == "tokens" && domains.window_tokens < 1)
      problems.add("length", "is in tokens, but how many a window has is not known");
    mixing::refuse(problems);
    std::tie(weights_, domain_) = prepare(domains.names, domains.windows, problems);
    run_ = static_cast<double>(domains.run_windows);
    window_tokens_ = domains.window_tokens;
  }

  Mixture mixture(const Progress& progress) const override {
    if (progress.steps < 1) throw std::invalid_argument("a run without steps");
    const double run = in_windows() ? run_ : static_cast<double>(progress.steps);
    const double half = options_.length.unit.empty() ? run / 2
                        : in_windows()               ? windows_of(window_tokens_)
                                                     : options_.length.amount;
    Problems problems;
    fits(half, run, in_windows() ? "windows" : "steps", problems);
    mixing::refuse(problems);
    // In units of the length: the step covers [from, from + one].
    const double one = run / static_cast<double>(progress.steps), from = one * static_cast<double>(progress.step);
    const auto covered = [&](double low, double high) {
      return std::max(0.0, std::min(from + one, high) - std::max(from, low)) / one;
    };
    const double delta = options_.shift * (covered(0, half) - covered(half, 2 * half));
    std::vector<double> shares = weights_;
    const double others = 1 - weights_[domain_];
    for (std::size_t d = 0; d < shares.size(); ++d) {
      shares[d] += d == domain_ ? delta : others > 0 ? -delta * weights_[d] / others : 0;
      shares[d] = std::max(0.0, shares[d]);
    }
    return {shares, {}};
  }

 private:
  bool in_windows() const { return options_.length.unit == "tokens" || options_.length.unit == "examples"; }
  /// The length in windows, perhaps no whole number.
  double windows_of(std::int64_t window_tokens) const {
    return options_.length.unit == "tokens" ? options_.length.amount / static_cast<double>(window_tokens)
                                            : options_.length.amount;
  }
  static void fits(double half, double run, const char* unit, Problems& problems) {
    if (2 * half > run * (1 + 1e-9))
      problems.add("length", "two halves of " + readable(half) + " " + unit + " do not fit into a run of " + readable(run) +
                                 ", so the shift would not be made good");
  }
  std::pair<std::vector<double>, std::size_t> prepare(const std::vector<std::string>& names,
                                                      const std::vector<std::int64_t>& windows, Problems& problems) const {
    std::vector<double> weights = mixing::named_shares(options_.weights, names, windows, problems);
    const std::size_t domain = mixing::find_domain(options_.domain, names, windows, "domain", problems);
    if (domain == names.size() || (options_.weights.empty() && windows.empty())) return {std::move(weights), 0};
    const double size = std::abs(options_.shift), share = weights[domain];
    if (size > std::min(share, 1 - share) + 1e-12 && problems.list().empty())
      problems.add("shift", "the share of `" + options_.domain + "` is " + readable(share) + ", which cannot be both " +
                                readable(size) + " higher and lower");
    return {std::move(weights), domain};
  }

  Options options_;
  std::vector<double> weights_;
  std::size_t domain_ = 0;
  double run_ = 0;
  std::int64_t window_tokens_ = 0;
};

}  // namespace

MOIETY_PLUGIN("block-shift", "1.0.0", "One domain earlier or later",
              component<BlockShift>("block-shift", 1, "One domain's share up for a while, then down for as long",
                                    "Commute Your Domains, arXiv 2501.15556, section 3"));
