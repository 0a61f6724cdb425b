// A second file with an unnamed Options: its setters are its own, not those of params_test.cpp.
#include <gtest/gtest.h>

#include "moiety/params.h"

namespace moiety {
namespace {

struct Options {
  double first;
  std::int64_t other, count;
};

constexpr Parameter parameters[] = {param<&Options::count>("count", 2, "at another offset than in params_test.cpp")};

TEST(Params, setters_of_two_files_with_equal_names_stay_apart) {
  Options o{1.5, 7, 0};
  const Parameter* volatile declared = parameters;  // as the maker sees it: nothing is inlined
  declared->set(&o, Value(std::int64_t{5}));
  EXPECT_EQ(o.count, 5);
  EXPECT_EQ(o.other, 7);
  EXPECT_EQ(o.first, 1.5);
}

}  // namespace
}  // namespace moiety
