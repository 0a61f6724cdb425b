#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "moiety/mixing_scheduler.h"
#include "moiety_testing/reports.h"
#include "moiety_testing/testing.h"
#include "moiety_testing/toy_model.h"

namespace moiety {
namespace {

using testing::exact;
using testing::Quadratic;
using testing::TestData;
using testing::ToyModel;

const Domains two{{"one", "two"}, {30, 30}, 1000};

std::unique_ptr<MixingScheduler> scheduler(std::map<std::string, Value> given = {}, const Domains& domains = two) {
  auto s = testing::make<MixingScheduler>("lie-bracket", std::move(given));
  if (!domains.names.empty()) s->start(domains);
  return s;
}

double score(const MixingScheduler& s, const std::string& domain) {
  testing::TestReport report("lie-bracket");
  s.report(report);
  return report.value("score", {{"domain", domain}});
}

/// The two losses of the plane for domains of these sizes, at a point.
ToyModel plane(const TestData& data, double x, double y) {
  return ToyModel(exact({x, y}, {2}), [&data](std::int64_t window) { return testing::plane_loss(data.domain(window)); });
}

struct Row {
  double x, y, b1, b2, s1, s2;
};
const Row table[] = {{0, 0, -6, 16.5, 6.0, -72.75},
                     {2, 2, -21, 31.5, 231.0, -141.75},
                     {-1, 1.5, -17.25, 9, 88.5, 120.1875},
                     {1.5, -1, 1.5, 27.75, -110.25, -282.9375}};

// b_12 = H_2 g_1 − H_1 g_2, and two steps in both orders differ by exactly η² b_12 on quadratics.
TEST(LieBracket, the_plane_has_its_brackets_and_orders_differ_by_them) {
  for (const Row& row : table) {
    const at::Tensor at_point = exact({row.x, row.y}, {2});
    const Quadratic one = testing::plane_loss(0), other = testing::plane_loss(1);
    const at::Tensor bracket = other.hessian.matmul(one.gradient(at_point)) - one.hessian.matmul(other.gradient(at_point));
    EXPECT_NEAR(bracket[0].item<double>(), row.b1, 1e-12);
    EXPECT_NEAR(bracket[1].item<double>(), row.b2, 1e-12);
    const auto stepped = [](const Quadratic& f, const at::Tensor& from, double rate) { return from - rate * f.gradient(from); };
    for (const double rate : {0.5, 0.1, 1e-3}) {
      const at::Tensor first = stepped(other, stepped(one, at_point, rate), rate);
      const at::Tensor last = stepped(one, stepped(other, at_point, rate), rate);
      EXPECT_LT(((first - last) / (rate * rate) - bracket).abs().max().item<double>(), 1e-7);
    }
  }
}

// s_k of the two-domain form is twice the score of the first domain in a mixture of halves, and less twice that of the second.
TEST(LieBracket, scores_of_the_plane) {
  const TestData data(two.names, two.windows);
  for (const Row& row : table) {
    const ToyModel model = plane(data, row.x, row.y);
    for (const bool first : {true, false}) {
      const auto s = scheduler({{"target", std::string(first ? "one" : "two")}});
      s->inspect(model, data, {0, 1000}, Random(1));
      const double expected = first ? row.s1 : row.s2;
      EXPECT_NEAR(2 * score(*s, "one"), expected, 1e-9);
      EXPECT_NEAR(-2 * score(*s, "two"), expected, 1e-9);
      const auto shares = s->mixture({0, 1000}).shares;
      EXPECT_NEAR(shares[0], expected < 0 ? 0.6 : 0.4, 1e-12) << "a negative score comes earlier";
      EXPECT_NEAR(shares[0] + shares[1], 1, 1e-12);
    }
    const auto mean = scheduler();
    mean->inspect(model, data, {0, 1000}, Random(1));
    EXPECT_NEAR(2 * score(*mean, "one"), (row.s1 + row.s2) / 2, 1e-9) << "the mean over domains";
  }
}

// The predicted change of a short block shift, ε τ² s, against the flow itself.
TEST(LieBracket, the_score_predicts_what_a_shift_does) {
  for (const Row& row : table) {
    const auto loss_after = [&](double shift) {
      const int steps = 2000;
      const double time = 2e-3;
      at::Tensor point = exact({row.x, row.y}, {2});
      for (int i = 0; i < steps; ++i) {
        const double share = 0.5 + (i < steps / 2 ? shift : -shift);
        point =
            point - time / steps *
                        (share * testing::plane_loss(0).gradient(point) + (1 - share) * testing::plane_loss(1).gradient(point));
      }
      return testing::plane_loss(0).value(point);
    };
    const double changed = (loss_after(0.2) - loss_after(-0.2)) / 2;
    EXPECT_NEAR(changed / (0.2 * 1e-3 * 1e-3 * row.s1), 1, 0.05) << row.x;
  }
}

TEST(LieBracket, preconditioned_brackets_scale_gradients_and_the_flow) {
  const TestData data(two.names, two.windows);
  ToyModel model = plane(data, 0, 0);
  const auto s = scheduler({{"target", std::string("one")}, {"bracket", std::int64_t{1}}});
  s->inspect(model, data, {0, 1000}, Random(1));
  EXPECT_EQ(score(*s, "one"), 0) << "an optimizer that has not begun has nothing to say";
  EXPECT_EQ(s->mixture({0, 1000}).shares, (std::vector<double>{0.5, 0.5}));
  EXPECT_THROW(s->inspect(model, data, {100, 1000}, Random(1)), std::invalid_argument);
  model.preconditioner_ = exact({2, 0.5}, {2});
  s->inspect(model, data, {100, 1000}, Random(1));
  const at::Tensor p = model.preconditioner_, at_point = model.point_;
  const Quadratic one = testing::plane_loss(0), other = testing::plane_loss(1);
  const at::Tensor g1 = one.gradient(at_point), g2 = other.gradient(at_point);
  const at::Tensor bracket = p * (other.hessian.matmul(p * g1) - one.hessian.matmul(p * g2));
  EXPECT_NEAR(2 * score(*s, "one"), g1.dot(bracket).item<double>(), 1e-9);
}

/// Four domains in eight dimensions, with noise in the windows' gradients that is zero on average.
class Noisy {
 public:
  Noisy() : data_({"a", "b", "c", "d"}, {40, 60, 20, 300}) {
    for (std::uint64_t d = 0; d < 4; ++d) {
      const at::Tensor root = testing::normal({8, 8}, Random(d)).to(at::kDouble);
      losses_[d] = {root.matmul(root.t()), testing::normal({8}, Random(9 + d)).to(at::kDouble), {}};
    }
  }
  ToyModel model() const {
    return ToyModel(testing::normal({8}, Random(99)).to(at::kDouble), [this](std::int64_t window) {
      Quadratic f = losses_[data_.domain(window)];
      f.slope = testing::normal({8}, Random(static_cast<std::uint64_t>(window)), 0.1).to(at::kDouble);
      return f;
    });
  }
  TestData data_;
  Quadratic losses_[4];
};

TEST(LieBracket, windows_of_the_three_kinds_are_disjoint_and_of_the_domain) {
  const Noisy noisy;
  const ToyModel model = noisy.model();
  const auto s = scheduler({{"batches", std::int64_t{5}}, {"batch", std::int64_t{2}}},
                           {noisy.data_.domains(), noisy.data_.table().count, 100});
  s->inspect(model, noisy.data_, {0, 1000}, Random(1));
  std::map<std::size_t, std::set<std::int64_t>> seen;
  int products = 0;
  for (const auto& [what, windows] : model.calls_) {
    products += what == "hessian_product" ? 1 : 0;
    EXPECT_EQ(windows.size(), noisy.data_.domain(windows[0]) == 2 ? 6U : 10U);
    for (const std::int64_t window : windows) {
      EXPECT_EQ(noisy.data_.domain(window), noisy.data_.domain(windows[0]));
      EXPECT_TRUE(seen[noisy.data_.domain(window)].insert(window).second) << "used twice: " << window;
    }
  }
  EXPECT_EQ(products, 4) << "one a domain";
  for (const auto& [domain, windows] : seen) EXPECT_EQ(windows.size(), domain == 2 ? 18U : 30U);
}

TEST(LieBracket, budgets_are_kept_and_shares_add_up) {
  const Noisy noisy;
  const ToyModel model = noisy.model();
  for (const std::int64_t every : {1, 7, 30, 100, 1000}) {
    const auto s = scheduler({{"every", every}, {"shift", 1.0}, {"weights", Shares{{"a", 0.1}, {"b", 0.5}, {"d", 0.4}}}},
                             {noisy.data_.domains(), noisy.data_.table().count, 100});
    EXPECT_TRUE(s->conserves_budgets());
    std::vector<double> given(4);
    double farthest = 0;
    for (std::int64_t step = 0; step < 100; ++step) {
      if (step % s->inspect_every() == 0) s->inspect(model, noisy.data_, {step, 100}, Random(1).fork(step));
      const auto shares = s->mixture({step, 100}).shares;
      ASSERT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 1, 1e-9);
      for (std::size_t d = 0; d < 4; ++d) given[d] += shares[d] / 100;
      farthest = std::max(farthest, std::abs(given[1] - 0.5 * static_cast<double>(step + 1) / 100));
    }
    EXPECT_NEAR(given[0], 0.1, 1e-9) << every;
    EXPECT_NEAR(given[1], 0.5, 1e-9) << every;
    EXPECT_EQ(given[2], 0);
    EXPECT_NEAR(given[3], 0.4, 1e-9) << every;
    EXPECT_EQ(farthest > 0.01, every <= 30) << "something was moved";
  }
}

TEST(LieBracket, the_same_stream_gives_the_same_and_another_one_another) {
  const Noisy noisy;
  const ToyModel model = noisy.model();
  const auto asked = [&](std::uint64_t seed) {
    const auto s = scheduler({{"batches", std::int64_t{1}}}, {noisy.data_.domains(), noisy.data_.table().count, 100});
    s->inspect(model, noisy.data_, {0, 1000}, Random(seed));
    return s->mixture({0, 1000}).shares;
  };
  EXPECT_EQ(asked(1), asked(1));
  EXPECT_NE(asked(1), asked(2));
}

TEST(LieBracket, what_cannot_be_is_refused) {
  Facts facts;
  facts.domains = {"en", "de"};
  facts.domain_windows = {50, 2};
  Problems problems;
  scheduler({{"target", std::string("em")}}, {})->check(facts, problems);
  ASSERT_EQ(problems.list().size(), 2U);
  EXPECT_EQ(problems.list()[0].message, "there is no domain `em`; did you mean `en`?");
  EXPECT_EQ(problems.list()[1].message, "domain `de` has 2 training windows; a bracket needs three that are not the same");
  EXPECT_THROW(scheduler({}, {{"a"}, {0}, 10}), std::invalid_argument);
}

TEST(LieBracket, T42_saved_and_loaded_it_goes_on_equal) {
  const Noisy noisy;
  const ToyModel model = noisy.model();
  const Domains domains{noisy.data_.domains(), noisy.data_.table().count, 100};
  const auto advance = [&](MixingScheduler& s, std::int64_t step) {
    if (step % 10 == 0) s.inspect(model, noisy.data_, {step, 100}, Random(1).fork(step));
    return s.mixture({step, 100}).shares;
  };
  for (const bool state_first : {false, true}) {
    const auto whole = scheduler({{"every", std::int64_t{10}}}, domains);
    for (std::int64_t step = 0; step < 43; ++step) advance(*whole, step);
    testing::TestArchive archive;
    whole->state(archive);
    archive.rewind();
    const auto resumed = scheduler({{"every", std::int64_t{10}}}, state_first ? Domains{} : domains);
    resumed->state(archive);
    if (state_first) resumed->start(domains);
    for (std::int64_t step = 43; step < 100; ++step) ASSERT_EQ(advance(*whole, step), advance(*resumed, step));
    EXPECT_EQ(score(*whole, "a"), score(*resumed, "a"));
  }
}

}  // namespace
}  // namespace moiety
