#include "kernel/engine/stages/ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernel/engine/checkpoint/state_archive.h"
#include "moiety/random.h"

namespace moiety::engine {
namespace {

TEST(Ledger, steady_shares_are_followed_to_less_than_one_window_at_every_moment) {
  const std::vector<double> shares{0.5, 0.3, 0.15, 0.05};
  Ledger ledger({10, 10, 10, 10});
  for (std::int64_t i = 1; i <= 1000; ++i) {
    ledger.give(shares, 1);
    for (std::size_t d = 0; d < 4; ++d)
      ASSERT_LT(std::abs(static_cast<double>(ledger.given()[d]) - shares[d] * static_cast<double>(i)), 1.0);
  }
  EXPECT_EQ(ledger.given(), (std::vector<std::int64_t>{500, 300, 150, 50}));
}

TEST(Ledger, five_hundred_random_proposals_all_end_exact) {
  Random random(3);
  for (int proposal = 0; proposal < 500; ++proposal) {
    const auto domains = static_cast<std::size_t>(1 + random.below(12));
    std::vector<std::int64_t> windows(domains, 5);
    Ledger ledger(windows);
    std::vector<double> due(domains);
    std::int64_t total = 0;
    for (int step = 0; step < 20; ++step) {
      std::vector<double> shares(domains), clean(domains);
      for (std::size_t d = 0; d < domains; ++d) {
        switch (random.below(8)) {
          case 0:
            shares[d] = std::numeric_limits<double>::quiet_NaN();
            break;
          case 1:
            shares[d] = -random.uniform();
            break;
          case 2:
            shares[d] = 1e300 * random.uniform();
            break;
          case 3:
            shares[d] = std::numeric_limits<double>::infinity();
            break;
          default:
            shares[d] = random.uniform();
        }
        clean[d] = std::isfinite(shares[d]) ? std::max(0.0, shares[d]) : 0.0;
      }
      const double largest = *std::max_element(clean.begin(), clean.end());
      for (double& share : clean) share = largest > 0 ? share / largest : 1;
      const double sum = std::accumulate(clean.begin(), clean.end(), 0.0);
      const std::int64_t count = 1 + random.below(40);
      const auto order = ledger.give(shares, count);
      ASSERT_EQ(static_cast<std::int64_t>(order.size()), count);
      total += count;
      for (std::size_t d = 0; d < domains; ++d) {
        due[d] += static_cast<double>(count) * clean[d] / sum;
        if (clean[d] == 0) {
          ASSERT_EQ(std::count(order.begin(), order.end(), static_cast<std::int64_t>(d)), 0) << "no window for a share of 0";
        }
      }
    }
    ASSERT_EQ(std::accumulate(ledger.given().begin(), ledger.given().end(), std::int64_t{0}), total);
    for (std::size_t d = 0; d < domains; ++d)
      ASSERT_LT(std::abs(static_cast<double>(ledger.given()[d]) - due[d]), static_cast<double>(domains)) << proposal << " " << d;
  }
}

TEST(Ledger, with_budgets_five_hundred_random_runs_all_end_exact) {
  Random random(5);
  for (int run = 0; run < 500; ++run) {
    const auto domains = static_cast<std::size_t>(1 + random.below(12));
    std::vector<std::int64_t> windows(domains);
    std::vector<double> planned(domains);
    for (std::size_t d = 0; d < domains; ++d) {
      windows[d] = d == 0 ? 5 : random.below(4);
      planned[d] = random.below(5) == 0 ? 0 : random.uniform();
    }
    std::int64_t total = 1 + random.below(300);
    const auto budgets = whole_windows(planned, windows, total);
    ASSERT_EQ(std::accumulate(budgets.begin(), budgets.end(), std::int64_t{0}), total);
    Ledger ledger(windows, budgets);
    while (total > 0) {
      std::vector<double> shares(domains);
      for (double& share : shares) {
        const std::int64_t kind = random.below(6);
        share = kind == 0   ? std::numeric_limits<double>::quiet_NaN()
                : kind == 1 ? -1.0
                : kind == 2 ? 0.0
                : kind == 3 ? std::numeric_limits<double>::infinity()
                            : random.uniform() * 1e300;
      }
      const std::int64_t count = std::min(total, 1 + random.below(20));
      ledger.give(shares, count);
      total -= count;
      for (std::size_t d = 0; d < domains; ++d) ASSERT_LE(ledger.given()[d], budgets[d]);
    }
    ASSERT_EQ(ledger.given(), budgets);
    ASSERT_THROW(ledger.give(planned, 1), std::out_of_range);
  }
}

TEST(Ledger, budgets_move_the_order_and_nothing_else) {
  // All of the second domain first: what it may have, it has; the first gets the rest.
  Ledger ledger({9, 9}, {6, 2});
  EXPECT_EQ(ledger.give({0, 1}, 4), (std::vector<std::int64_t>{1, 1, 0, 0}));
  EXPECT_EQ(ledger.give({0, 1}, 4), (std::vector<std::int64_t>{0, 0, 0, 0}));
}

TEST(Ledger, a_domain_without_windows_gets_none_and_no_domain_at_all_is_an_error) {
  Ledger ledger({0, 4});
  EXPECT_EQ(ledger.give({0.9, 0.1}, 3), (std::vector<std::int64_t>{1, 1, 1}));
  EXPECT_EQ(ledger.give({1, 0}, 2), (std::vector<std::int64_t>{1, 1}));
  EXPECT_THROW(Ledger({0, 0}), std::invalid_argument);
  EXPECT_THROW(ledger.give({1}, 1), std::invalid_argument);
}

TEST(Ledger, T42_goes_on_where_it_was) {
  Ledger whole({3, 4, 5}), first({3, 4, 5});
  const std::vector<double> shares{0.2, 0.35, 0.45};
  auto expected = whole.give(shares, 17);
  const auto begun = first.give(shares, 6);
  StateWriter writer;
  first.state(writer);
  TensorMap state;
  for (const auto& [name, tensor] : writer.tensors()) state[name] = tensor;
  StateReader reader(state);
  Ledger second({3, 4, 5});
  second.state(reader);
  auto joined = begun;
  for (const std::int64_t domain : second.give(shares, 11)) joined.push_back(domain);
  EXPECT_EQ(joined, expected);
  EXPECT_EQ(second.given(), whole.given());
}

TEST(Ledger, T42_budgets_go_on_too) {
  Ledger first({3, 4}, {2, 6});
  first.give({1, 0}, 3);
  StateWriter writer;
  first.state(writer);
  TensorMap state;
  for (const auto& [name, tensor] : writer.tensors()) state[name] = tensor;
  StateReader reader(state);
  Ledger second({3, 4}, {5, 3});
  second.state(reader);
  second.give({1, 0}, 5);
  EXPECT_EQ(second.given(), (std::vector<std::int64_t>{2, 6}));
}

}  // namespace
}  // namespace moiety::engine
