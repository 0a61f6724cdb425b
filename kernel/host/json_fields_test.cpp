#include "kernel/host/json_fields.h"

#include <gtest/gtest.h>

#include <cmath>

namespace moiety::host {
namespace {

TEST(JsonFields, what_is_there_is_read) {
  const nlohmann::json object = {{"text", "a"},   {"real", 0.5}, {"whole", 3}, {"large", 9007199254740993},
                                 {"inf", "-inf"}, {"nan", "nan"}};
  EXPECT_EQ(text_at(object, "text"), "a");
  EXPECT_EQ(real_at(object, "real"), 0.5);
  EXPECT_EQ(real_at(object, "whole"), 3.0);
  EXPECT_EQ(whole_at(object, "whole"), 3);
  EXPECT_EQ(whole_at(object, "large"), 9007199254740993) << "a double does not hold it";
  EXPECT_EQ(whole_at(object, "real"), 0);
  EXPECT_EQ(real_at(object, "inf"), -INFINITY);
  EXPECT_TRUE(std::isnan(*real_at(object, "nan")));
  EXPECT_EQ(member_at(object, "text"), "a");
}

TEST(JsonFields, what_is_missing_or_of_another_type_is_absent) {
  const nlohmann::json object = {
      {"text", 5}, {"real", "many"}, {"whole", nlohmann::json::array()}, {"huge", 1e300}, {"unsigned", UINT64_MAX}};
  EXPECT_EQ(text_at(object, "text"), "");
  EXPECT_FALSE(real_at(object, "real"));
  EXPECT_EQ(whole_at(object, "whole"), 0);
  EXPECT_EQ(whole_at(object, "huge"), 0);
  EXPECT_EQ(whole_at(object, "unsigned"), 0);
  for (const nlohmann::json& other :
       {nlohmann::json(), nlohmann::json(3), nlohmann::json("text"), nlohmann::json::array({1}), nlohmann::json::object()}) {
    EXPECT_TRUE(member_at(other, "key").is_null()) << other;
    EXPECT_EQ(text_at(other, "key"), "") << other;
    EXPECT_FALSE(real_at(other, "key")) << other;
    EXPECT_EQ(whole_at(other, "key"), 0) << other;
  }
}

}  // namespace
}  // namespace moiety::host
