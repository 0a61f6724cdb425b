// Capacity: who keeps a place when experts are full, and how many do not.
#include "kernel/engine/layers/gate.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace moiety::engine {
namespace {

at::Tensor experts_of(const std::vector<std::vector<std::int64_t>>& rows) {
  std::vector<at::Tensor> list;
  list.reserve(rows.size());
  for (const auto& row : rows) list.push_back(at::tensor(row, at::kLong));
  return at::stack(list);
}

TEST(Capacity, rows_come_in_order_and_first_choices_before_second_ones) {
  std::int64_t dropped = 0;
  const at::Tensor chosen = experts_of({{0, 1}, {0, 1}, {0, 2}, {1, 0}});
  const at::Tensor kept = within_capacity(chosen, 3, 2, at::Tensor(), dropped);
  EXPECT_TRUE(at::equal(kept, experts_of({{0, 1}, {0, -1}, {-1, 2}, {1, -1}})));
  EXPECT_EQ(dropped, 3);
  EXPECT_TRUE(at::equal(chosen, experts_of({{0, 1}, {0, 1}, {0, 2}, {1, 0}}))) << "the router's own tensor is left alone";
}

TEST(Capacity, higher_priority_keeps_its_place) {
  std::int64_t dropped = 0;
  const at::Tensor kept = within_capacity(experts_of({{0}, {0}, {0}}), 2, 1, at::tensor({0.1, 0.9, 0.9}), dropped);
  EXPECT_TRUE(at::equal(kept, experts_of({{-1}, {0}, {-1}}))) << "among equals the earlier row";
  EXPECT_EQ(dropped, 2);
}

TEST(Capacity, empty_places_count_for_nobody) {
  std::int64_t dropped = 0;
  EXPECT_TRUE(at::equal(within_capacity(experts_of({{-1}, {1}}), 2, 1, at::Tensor(), dropped), experts_of({{-1}, {1}})));
  EXPECT_EQ(dropped, 0);
}

}  // namespace
}  // namespace moiety::engine
