// What a block shift of one domain would do to each domain's loss, as the Lie bracket says, without training.
//
// The share of `domain` (1) is `shift` = ε higher for a length τ and lower by as much for the next, the rest (R) makes room in
// its own proportions. With [X, Y] = DY·X − DX·Y of the flows v = −P g, to first order
//
//   δL_k ≈ ε τ² s_k,   s_k = ⟨g_k, P (H_R P g_1 − H_1 P g_R)⟩        P = 1 (plain) or the optimizer's frozen diagonal
//   (preconditioned)
//
// so s_k < 0 says: domain 1 earlier lowers L_k. That of n domains comes to the same: moving 1 against the rest in their
// proportions leaves no bracket among the rest. τ is the time of the flow: learning rate times steps. The sign does not depend on
// it; its size holds for a constant rate without momentum, and where the flow does not contract much within the length.
//
// A domain's `batches` are dealt into `replicates`, and within each into three that share no window: for g_k, for g_1 and g_R,
// and for the Hessians; a common batch would tie their noise together. Reported are the mean over replicates, t = mean / (sd /
// √replicates), and the two-sided p of Student's t; for a shift of 0, 0 and 1. Commute Your Domains, arXiv 2501.15556, section 3.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "moiety/probe.h"
#include "student_t.h"

namespace moiety::bracket {
MOIETY_CHOICE(Bracket, plain, preconditioned);
}

namespace {

using namespace moiety;
using bracket::Bracket;

constexpr const char* scope = "all";
enum Group { target, source, hessian, groups };

/// Windows with a weight each.
struct Weighted {
  Windows windows;
  std::vector<double> weights;

  void add(const Windows& more, double together) {
    windows.insert(windows.end(), more.begin(), more.end());
    weights.insert(weights.end(), more.size(), together / static_cast<double>(more.size()));
  }
  at::Tensor tensor() const {
    at::Tensor t = at::empty({static_cast<std::int64_t>(weights.size())}, at::kDouble);
    std::copy(weights.begin(), weights.end(), t.data_ptr<double>());
    return t;
  }
};

class LieBracket final : public Probe {
 public:
  struct Options {
    std::string domain;
    double shift;
    Budget length;
    Bracket bracket;
    std::int64_t batches, batch, replicates;
    Shares weights;
    double learning_rate;
    std::int64_t training_batch;
  };
  static constexpr Parameter parameters[] = {
      required<&Options::domain>("domain", "whose share would be shifted"),
      required<&Options::shift>("shift", "added to its share for `length`, then taken for as long").range(-1, 1),
      required<&Options::length>("length", "of each half: tokens, examples (windows) or steps"),
      param<&Options::bracket>("bracket", Bracket::plain, "of plain gradients, or of gradients as the optimizer scales them"),
      param<&Options::batches>("batches", 100, "of each domain, all replicates together").at_least(6),
      param<&Options::batch>("batch", 6, "windows of a batch").at_least(1).in("windows"),
      param<&Options::replicates>("replicates", 5, "independent estimates, for p").at_least(2),
      optional<&Options::weights>("weights", "shares of the other domains, when there are several; left out: as their sizes"),
      param<&Options::learning_rate>("training.learning_rate", 1e-3, "of the training that is predicted; scales the change")
          .above(0),
      param<&Options::training_batch>("training.batch", 16, "windows of its steps; scales the change").at_least(1).in("windows")};
  static constexpr Output outputs[] = {
      metric("change", "nats", 0, "predicted change of a domain's loss by the shift").over("domain"),
      metric("p", "", 0, "two-sided, that the bracket is 0 for this domain; 1 for a shift of 0").over("domain"),
      metric("score", "", 0, "bracket score; negative: the shifted domain earlier lowers this domain's loss").over("domain"),
      metric("t", "", 0, "the score's mean over replicates by its standard error").over("domain")};

  explicit LieBracket(Options options) : options_(std::move(options)) {}

  void check(const Facts& facts, Problems& problems) const override {
    const auto& names = facts.domains;
    if (!names.empty() && std::find(names.begin(), names.end(), options_.domain) == names.end())
      problems.add("domain", "there is no domain `" + options_.domain + "`");
    if (names.size() == 1) problems.add("domain", "there is no other domain to make room");
    for (const auto& [name, share] : options_.weights) {
      if (!names.empty() && std::find(names.begin(), names.end(), name) == names.end())
        problems.add("weights", "there is no domain `" + name + "`");
      if (!std::isfinite(share) || share < 0)
        problems.add("weights", "the share of `" + name + "` must be a number of at least 0");
    }
    const std::string& unit = options_.length.unit;
    if (unit != "tokens" && unit != "examples" && unit != "steps")
      problems.add("length", "must be in tokens, examples (windows) or steps, but is in " + unit);
  }

  void measure(const Model& model, const Data& data, Report& report, Random random) override {
    const std::vector<double> rest = others(data);
    const at::Tensor scale = options_.bracket == Bracket::preconditioned ? model.preconditioner(scope) : at::Tensor();
    if (options_.bracket == Bracket::preconditioned && !scale.defined())
      throw std::invalid_argument("bracket = \"preconditioned\" needs the moments of the model's optimizer, which are not there");
    deal(data, random);

    std::vector<std::vector<double>> scores(data.domains().size());
    for (std::int64_t r = 0; r < options_.replicates; ++r) {
      const at::Tensor direction = bracket_of(model, rest, r, scale).to(at::kDouble);
      for (std::size_t k = 0; k < scores.size(); ++k) {
        if (dealt_[k].empty()) continue;
        const at::Tensor g = model.gradient(windows(k, r, target), {}, scope);
        scores[k].push_back(g.to(at::kDouble).dot(direction).item<double>());
      }
    }
    const double time = options_.learning_rate * steps(data);
    for (std::size_t k = 0; k < scores.size(); ++k)
      if (!scores[k].empty()) tell(data.domains()[k], scores[k], time, report);
  }

 private:
  /// The shares of the other domains among themselves, 0 for the shifted one.
  std::vector<double> others(const Data& data) {
    const auto& names = data.domains();
    shifted_ = static_cast<std::size_t>(std::find(names.begin(), names.end(), options_.domain) - names.begin());
    if (shifted_ == names.size()) throw std::invalid_argument("domain: there is no domain `" + options_.domain + "`");
    std::vector<double> shares(names.size(), 0.0);
    for (std::size_t d = 0; d < names.size(); ++d)
      if (d != shifted_ && options_.weights.empty()) shares[d] = static_cast<double>(data.table().count[d]);
    for (const auto& [name, share] : options_.weights) {
      const auto d = static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
      if (d == names.size()) throw std::invalid_argument("weights: there is no domain `" + name + "`");
      if (d != shifted_) shares[d] = share;
    }
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    if (!(sum > 0)) throw std::invalid_argument("no other domain than `" + options_.domain + "` has a share");
    for (double& share : shares) share /= sum;
    return shares;
  }

  /// Windows of every domain in a random order, as many as are used; none of a domain without any.
  void deal(const Data& data, const Random& random) {
    const std::int64_t hands = options_.replicates * groups;
    dealt_.assign(data.domains().size(), {});
    for (std::size_t d = 0; d < dealt_.size(); ++d) {
      const std::int64_t there = data.table().count[d], each = std::min(options_.batches * options_.batch, there) / hands;
      if (there == 0) continue;
      if (each < 1)
        throw std::invalid_argument("domain " + data.domains()[d] + " has " + std::to_string(there) +
                                    " windows, and batches say " + std::to_string(options_.batches * options_.batch) + ", but " +
                                    std::to_string(options_.replicates) + " replicates of three need " + std::to_string(hands));
      Windows all(static_cast<std::size_t>(there));
      std::iota(all.begin(), all.end(), data.table().first[d]);
      Random stream = random.fork(d);
      for (std::size_t i = 0; i < static_cast<std::size_t>(each * hands); ++i)
        std::swap(all[i], all[i + static_cast<std::size_t>(stream.below(static_cast<std::int64_t>(all.size() - i)))]);
      all.resize(static_cast<std::size_t>(each * hands));
      dealt_[d] = std::move(all);
    }
  }
  Windows windows(std::size_t domain, std::int64_t replicate, Group group) const {
    const auto& all = dealt_[domain];
    const auto each = static_cast<std::ptrdiff_t>(all.size()) / (options_.replicates * groups);
    const auto begin = all.begin() + each * (replicate * groups + group);
    return Windows(begin, begin + each);
  }

  /// P (H_R P g_1 − H_1 P g_R) of a replicate.
  at::Tensor bracket_of(const Model& model, const std::vector<double>& rest, std::int64_t replicate,
                        const at::Tensor& scale) const {
    const auto scaled = [&](const at::Tensor& v) { return scale.defined() ? v * scale : v; };
    Weighted sources, hessians;
    for (std::size_t d = 0; d < rest.size(); ++d) {
      if (!(rest[d] > 0)) continue;
      if (dealt_[d].empty()) throw std::invalid_argument("a domain with a share has no windows");
      sources.add(windows(d, replicate, source), rest[d]);
      hessians.add(windows(d, replicate, hessian), rest[d]);
    }
    const at::Tensor one = scaled(model.gradient(windows(shifted_, replicate, source), {}, scope));
    const at::Tensor others = scaled(model.gradient(sources.windows, sources.tensor(), scope));
    return scaled(model.hessian_product(hessians.windows, hessians.tensor(), one, scope) -
                  model.hessian_product(windows(shifted_, replicate, hessian), {}, others, scope));
  }

  /// Steps of the training that is predicted in each half of the block.
  double steps(const Data& data) const {
    if (options_.length.unit == "steps") return options_.length.amount;
    double examples = options_.length.amount;
    if (options_.length.unit == "tokens") examples /= static_cast<double>(data.tokens({dealt_[shifted_][0]}).size(1) - 1);
    return examples / static_cast<double>(options_.training_batch);
  }

  void tell(const std::string& domain, const std::vector<double>& scores, double time, Report& report) const {
    const auto n = static_cast<double>(scores.size());
    const double mean = std::accumulate(scores.begin(), scores.end(), 0.0) / n;
    double square = 0;
    for (const double score : scores) square += (score - mean) * (score - mean);
    const double error = std::sqrt(square / (n - 1) / n);
    const double t = error > 0 ? mean / error : mean == 0 ? 0 : std::copysign(std::numeric_limits<double>::infinity(), mean);
    const Report::Labels labels{{"domain", domain}};
    report.metric("change", options_.shift * time * time * mean, labels);
    report.metric("p", options_.shift == 0 ? 1 : bracket::p_of_t(t, n - 1), labels);
    report.metric("score", mean, labels);
    report.metric("t", t, labels);
  }

  Options options_;
  std::size_t shifted_ = 0;
  std::vector<Windows> dealt_;  ///< of each domain, hand after hand
};

}  // namespace

MOIETY_PLUGIN("lie-bracket-probe", "1.0.0", "Predicted change by a shift of one domain",
              component<LieBracket>("lie-bracket", 1, "What one domain earlier or later would do to each domain's loss",
                                    "Commute Your Domains, arXiv 2501.15556, section 3"));
