#include "kernel/host/run/rate.h"

#include <gtest/gtest.h>

namespace moiety::host {
namespace {

TEST(Rate, follows_what_it_sees_smoothly) {
  Rate rate;
  EXPECT_FALSE(rate.per_second());
  rate.see(0, 10);
  EXPECT_FALSE(rate.per_second());
  rate.see(1000, 11);
  EXPECT_DOUBLE_EQ(*rate.per_second(), 1000);
  rate.see(1100, 12);  // one slow second moves it by about a tenth
  EXPECT_GT(*rate.per_second(), 850);
  EXPECT_LT(*rate.per_second(), 960);
  for (int i = 1; i <= 100; ++i) rate.see(1100 + 100 * i, 12 + i);
  EXPECT_NEAR(*rate.per_second(), 100, 1);
  EXPECT_NEAR(*rate.seconds_for(500), 5, 0.1);
}

TEST(Rate, a_resumed_stage_is_measured_from_where_it_starts) {
  Rate rate;
  rate.see(1'000'000, 0);
  rate.see(1'000'100, 1);
  EXPECT_DOUBLE_EQ(*rate.per_second(), 100);
}

TEST(Rate, a_standstill_is_part_of_the_next_measurement_and_a_restart_is_not) {
  Rate rate;
  rate.see(0, 0);
  rate.see(100, 1);
  rate.see(100, 2);
  rate.see(100, 3);
  rate.see(200, 4);  // 100 in three seconds
  EXPECT_LT(*rate.per_second(), 100);
  const double before = *rate.per_second();
  rate.see(0, 5);  // another phase counts anew
  EXPECT_DOUBLE_EQ(*rate.per_second(), before);
  EXPECT_FALSE(rate.seconds_for(-1));
}

TEST(Durations, a_stage_takes_what_those_of_its_name_took_else_what_its_flops_say) {
  Durations durations;
  EXPECT_FALSE(durations.expect("tuned", 1e9));
  durations.ended("pretrained", 10, 1e12);
  EXPECT_DOUBLE_EQ(*durations.expect("tuned", 1e11), 1);
  EXPECT_FALSE(durations.expect("tuned", 0));
  durations.ended("tuned", 3, 1e11);
  durations.ended("tuned", 5, 1e11);
  EXPECT_DOUBLE_EQ(*durations.expect("tuned", 7), 4);
}

}  // namespace
}  // namespace moiety::host
