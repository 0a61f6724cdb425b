// Gradient consistency: does the direction in which training goes also serve rare text?
//
//   J(X)   gradients of the mean loss of each window of X             Θ = J Jᵀ,  u its eigenvector of the largest eigenvalue, Σu
//   ≥ 0 g(X)   = uᵀ J(X), the prevalent direction                         GC(X′) = cos(g(X), g(X′)),  X the whole set, X′ a part
//   of it
//
// u and J of a part are its own. A sum of u within 1e-3 √n of 0 gives no sign: then |GC| is reported, and `unclear` is 1.
// Rarity of a window is the mean over its tokens of count / largest count (1-gram score). The tail are the domains of `of`, or
// the `share` of windows with the lowest scores; the rest is common. X and each part are drawn anew, `windows` of each.
// "gradient-consistency-by-rarity" gives the same for `bins` of equally many windows, the rarest first.
// Cluster-guided sparse experts (CSE), section 2.1; scopes are all but embeddings, or a layer's attention or feed-forward.
#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "gram.h"
#include "moiety/probe.h"

namespace {

using namespace moiety;

/// `count` of these, without replacement, in the order of a shuffle; all of them when there are fewer.
Windows some_of(Windows from, std::int64_t count, Random random) {
  const auto size = std::min(static_cast<std::size_t>(count), from.size());
  for (std::size_t i = 0; i < size; ++i)
    std::swap(from[i], from[i + static_cast<std::size_t>(random.below(static_cast<std::int64_t>(from.size() - i)))]);
  from.resize(size);
  return from;
}

Windows all_windows(const Data& data) {
  Windows all;
  for (std::size_t d = 0; d < data.table().count.size(); ++d)
    for (std::int64_t i = 0; i < data.table().count[d]; ++i) all.push_back(data.table().first[d] + i);
  return all;
}

/// The 1-gram score of each window: the mean over its tokens of count / largest count.
std::vector<double> scores(const Data& data, const Windows& windows) {
  const at::Tensor counts = data.token_counts().to(at::kCPU, at::kDouble), frequency = counts / counts.max().clamp_min(1);
  std::vector<double> result;
  constexpr std::size_t chunk = 1024;
  for (std::size_t from = 0; from < windows.size(); from += chunk) {
    const auto end = windows.begin() + static_cast<std::ptrdiff_t>(std::min(from + chunk, windows.size()));
    const at::Tensor tokens =
        data.tokens(Windows(windows.begin() + static_cast<std::ptrdiff_t>(from), end)).to(at::kCPU, at::kLong);
    const at::Tensor own = tokens.narrow(1, 0, tokens.size(1) - 1);  // without the token after the window
    const at::Tensor mean = frequency.index_select(0, own.reshape({-1})).view(own.sizes()).mean(1).contiguous();
    result.insert(result.end(), mean.data_ptr<double>(), mean.data_ptr<double>() + mean.numel());
  }
  return result;
}

double mean(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

/// Windows by rarity, the rarest first; of equal scores the lower number first.
Windows by_rarity(const Data& data, std::int64_t candidates, const Random& random) {
  Windows pool = some_of(all_windows(data), candidates, random.fork("candidates"));
  std::sort(pool.begin(), pool.end());
  const std::vector<double> score = scores(data, pool);
  std::vector<std::size_t> order(pool.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return score[a] < score[b]; });
  Windows sorted;
  for (const std::size_t i : order) sorted.push_back(pool[i]);
  return sorted;
}

/// The whole set and parts of it, and Θ of all their windows.
class Sets {
 public:
  Sets(const Model& model, Windows whole, std::vector<Windows> parts) {
    Windows windows;
    rows_.push_back(rows(whole, windows));
    for (const Windows& part : parts) rows_.push_back(rows(part, windows));
    gram_ = std::make_unique<consistency::Gram>(model, windows);
  }
  /// Of every part.
  std::vector<consistency::Consistency> in(const std::string& scope) {
    const at::Tensor gram = gram_->of(scope);
    std::vector<consistency::Consistency> result;
    for (std::size_t i = 1; i < rows_.size(); ++i) result.push_back(consistency::consistency(gram, rows_[0], rows_[i]));
    return result;
  }

 private:
  /// A window of two sets has one row.
  static std::vector<std::int64_t> rows(const Windows& set, Windows& windows) {
    if (set.size() < 2) throw std::invalid_argument("a set has " + std::to_string(set.size()) + " windows, but needs two");
    std::vector<std::int64_t> result;
    for (const std::int64_t window : set) {
      const auto found = std::find(windows.begin(), windows.end(), window);
      result.push_back(found - windows.begin());
      if (found == windows.end()) windows.push_back(window);
    }
    return result;
  }
  std::vector<std::vector<std::int64_t>> rows_;
  std::unique_ptr<consistency::Gram> gram_;
};

class GradientConsistency final : public Probe {
 public:
  struct Options {
    std::vector<std::string> of, scopes;
    double share;
    std::int64_t windows, candidates;
  };
  static constexpr Parameter parameters[] = {
      optional<&Options::of>("of", "the domains that are the tail; left out: the windows with the lowest 1-gram scores"),
      param<&Options::share>("share", 0.1, "of the windows that are the tail, without `of`").above(0).below(1),
      param<&Options::windows>("windows", 64, "of the whole set and of each part").at_least(2).in("windows"),
      param<&Options::candidates>("candidates", 4096, "windows whose rarity is measured").at_least(4).in("windows"),
      optional<&Options::scopes>("scopes",
                                 "`value` is of the first, which is \"body\" when left out; \"layers\": attention and "
                                 "feed-forward of each")};
  static constexpr Output outputs[] = {
      metric("value", "", +1, "cosine of a part's prevalent gradient with the whole set's").over("part"),
      metric("frequency", "", 0, "mean 1-gram score of a part's windows").over("part"),
      metric("unclear", "", 0, "1 where an eigenvector has no clear sign, so that the value is a size").over("part"),
      metric("layer_value", "", +1, "the same in each of `scopes`").over("layer, part"),
      result("peak", "", "the snapshot at which the tail's value is largest")};

  explicit GradientConsistency(Options options) : options_(std::move(options)) {
    if (options_.scopes.empty()) options_.scopes = {"body"};
  }

  void check(const Facts& facts, Problems& problems) const override {
    for (const std::string& name : options_.of)
      if (!facts.domains.empty() && std::find(facts.domains.begin(), facts.domains.end(), name) == facts.domains.end())
        problems.add("of", "there is no domain `" + name + "`");
  }

  void measure(const Model& model, const Data& data, Report& report, Random random) override {
    const auto [whole, tail, common] = divide(data, random);
    const char* names[] = {"tail", "common"};
    const std::vector<Windows> parts{some_of(tail, options_.windows, random.fork("tail")),
                                     some_of(common, options_.windows, random.fork("common"))};
    Sets sets(model, some_of(whole, options_.windows, random.fork("whole")), parts);
    bool first = true;
    for (const std::string& scope : places(model)) {
      const auto found = sets.in(scope);
      for (std::size_t p = 0; p < 2; ++p) {
        report.metric("layer_value", found[p].value, {{"layer", scope}, {"part", names[p]}});
        if (!first) continue;
        report.metric("value", found[p].value, {{"part", names[p]}});
        report.metric("unclear", found[p].clear ? 0 : 1, {{"part", names[p]}});
        report.metric("frequency", mean(scores(data, parts[p])), {{"part", names[p]}});
      }
      if (first) of_tail_.push_back(found[0].value);
      first = false;
    }
  }

  void finish(const std::vector<std::string>& points, Report& report) override {
    if (points.empty()) return;
    if (points.size() != of_tail_.size())
      throw std::logic_error(std::to_string(points.size()) + " points, but " + std::to_string(of_tail_.size()) +
                             " were measured");
    const auto peak = std::max_element(of_tail_.begin(), of_tail_.end()) - of_tail_.begin();
    report.result("peak", std::vector<std::string>{points[static_cast<std::size_t>(peak)]});
  }

  void state(Archive& archive) override { archive("of_tail", of_tail_); }

 private:
  struct Division {
    Windows whole, tail, common;
  };
  Division divide(const Data& data, const Random& random) const {
    Division d;
    if (options_.of.empty()) {
      d.whole = by_rarity(data, options_.candidates, random);
      const auto last = static_cast<std::ptrdiff_t>(std::ceil(options_.share * static_cast<double>(d.whole.size())));
      d.tail.assign(d.whole.begin(), d.whole.begin() + last);
      d.common.assign(d.whole.begin() + last, d.whole.end());
      return d;
    }
    for (const std::string& name : options_.of)
      if (std::find(data.domains().begin(), data.domains().end(), name) == data.domains().end())
        throw std::invalid_argument("of: there is no domain `" + name + "`");
    d.whole = all_windows(data);
    for (std::size_t i = 0; i < data.domains().size(); ++i) {
      const bool rare = std::find(options_.of.begin(), options_.of.end(), data.domains()[i]) != options_.of.end();
      for (std::int64_t w = 0; w < data.table().count[i]; ++w) (rare ? d.tail : d.common).push_back(data.table().first[i] + w);
    }
    return d;
  }
  std::vector<std::string> places(const Model& model) const {
    std::vector<std::string> result;
    for (const std::string& scope : options_.scopes) {
      if (scope != "layers") {
        result.push_back(scope);
        continue;
      }
      for (std::int64_t layer = 0; layer < model.layers(); ++layer)
        for (const char* place : {".attention", ".feed_forward"}) result.push_back("layer" + std::to_string(layer) + place);
    }
    return result;
  }

  Options options_;
  std::vector<double> of_tail_;  ///< the tail's value at each point measured
};

class ByRarity final : public Probe {
 public:
  struct Options {
    std::int64_t bins, windows, candidates;
    std::string scope;
  };
  static constexpr Parameter parameters[] = {
      param<&Options::bins>("bins", 8, "of equally many windows, the rarest first").at_least(2),
      param<&Options::windows>("windows", 64, "of the whole set and of each bin").at_least(2).in("windows"),
      param<&Options::candidates>("candidates", 4096, "windows whose rarity is measured").at_least(4).in("windows"),
      param<&Options::scope>("scope", "body", "trained tensors whose gradients are compared")};
  static constexpr Output outputs[] = {
      metric("value", "", +1, "cosine of a bin's prevalent gradient with the whole set's").over("bin"),
      metric("frequency", "", 0, "mean 1-gram score of a bin's windows").over("bin"),
      metric("unclear", "", 0, "1 where an eigenvector has no clear sign, so that the value is a size").over("bin")};

  explicit ByRarity(Options options) : options_(std::move(options)) {}

  void measure(const Model& model, const Data& data, Report& report, Random random) override {
    const Windows whole = by_rarity(data, options_.candidates, random);
    std::vector<Windows> parts;
    for (std::int64_t b = 0; b < options_.bins; ++b) {
      const auto edge = [&](std::int64_t bin) {
        return whole.begin() + static_cast<std::ptrdiff_t>(whole.size()) * bin / static_cast<std::ptrdiff_t>(options_.bins);
      };
      parts.push_back(
          some_of(Windows(edge(b), edge(b + 1)), options_.windows, random.fork("bin").fork(static_cast<std::uint64_t>(b))));
    }
    Sets sets(model, some_of(whole, options_.windows, random.fork("whole")), parts);
    const auto found = sets.in(options_.scope);
    for (std::size_t b = 0; b < parts.size(); ++b) {
      const Report::Labels labels{{"bin", std::to_string(b + 1)}};
      report.metric("value", found[b].value, labels);
      report.metric("frequency", mean(scores(data, parts[b])), labels);
      report.metric("unclear", found[b].clear ? 0 : 1, labels);
    }
  }

 private:
  Options options_;
};

}  // namespace

MOIETY_PLUGIN("gradient-consistency", "1.0.0", "Does training serve rare text?",
              component<GradientConsistency>("gradient-consistency", 1,
                                             "Prevalent gradient of rare text against that of all text",
                                             "Cluster-guided sparse experts (CSE), section 2.1"),
              component<ByRarity>("gradient-consistency-by-rarity", 1,
                                  "The same for bins of windows, by how rare their tokens are",
                                  "Cluster-guided sparse experts (CSE), section 2.2"));
