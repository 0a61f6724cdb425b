#include "moiety/params.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace moiety {

/// Stands for the base of a real kind: this test needs no LibTorch.
class Component {
 public:
  virtual ~Component() = default;
};

namespace {

MOIETY_CHOICE(Rule, top, bottom, not_top);

class Grouper : public Component {
 public:
  static constexpr const char* kind = "grouper";
};

struct Options {
  bool on;
  std::int64_t count;
  double rate;
  std::string text;
  Rule rule;
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;
  Budget budget;
  Layers layers;
  std::optional<double> limit;
  std::shared_ptr<Grouper> grouper;
};

constexpr Parameter parameters[] = {
    param<&Options::on>("on", true, "switch"),
    param<&Options::count>("count", 2, "how many").at_least(1).in("experts"),
    param<&Options::rate>("schedule.rate", 1, "how fast").above(0).below(2),
    param<&Options::text>("text", "plain", "words"),
    param<&Options::rule>("rule", Rule::bottom, "which"),
    optional<&Options::sizes>("sizes", "a list"),
    optional<&Options::names>("names", "a list"),
    required<&Options::budget>("budget", "how long"),
    param<&Options::layers>("layers", "all", "where"),
    optional<&Options::limit>("limit", "at most").range(0, 1),
    param<&Options::grouper>("grouper", "balanced", "a part"),
};

// All of it is known when compiling: nothing runs when a plugin is opened.
static_assert(parameters[0].type == ParameterType::boolean && parameters[0].fallback.boolean);
static_assert(parameters[1].type == ParameterType::integer && parameters[1].fallback.integer == 2 && parameters[1].low == 1);
static_assert(parameters[2].type == ParameterType::number && parameters[2].fallback.number == 1.0);
static_assert(parameters[2].low_open && parameters[2].high_open && parameters[2].high == 2);
static_assert(parameters[3].type == ParameterType::text && parameters[4].type == ParameterType::choice);
static_assert(parameters[4].fallback.kind == Default::Kind::integer && parameters[4].fallback.integer == 1);
static_assert(parameters[5].type == ParameterType::integers && parameters[6].type == ParameterType::texts);
static_assert(parameters[7].type == ParameterType::budget && parameters[7].fallback.kind == Default::Kind::absent);
static_assert(parameters[8].type == ParameterType::layers && parameters[8].fallback.kind == Default::Kind::text);
static_assert(parameters[9].type == ParameterType::number && parameters[9].fallback.kind == Default::Kind::none);
static_assert(parameters[10].type == ParameterType::component);

TEST(Params, words_of_a_choice_come_from_the_enum) { EXPECT_STREQ(parameters[4].choices, "top, bottom, not_top"); }

TEST(Params, part_says_its_kind) { EXPECT_STREQ(parameters[10].kind, "grouper"); }

TEST(Params, set_fills_every_kind_of_field) {
  Options o{};
  const auto grouper = std::make_shared<Grouper>();
  const Value values[] = {true,
                          std::int64_t{5},
                          0.5,
                          std::string("hello"),
                          std::int64_t{2},
                          std::vector<std::int64_t>{1, 2},
                          std::vector<std::string>{"a"},
                          Budget{1.2e6, "tokens"},
                          Layers{"last 2", {}},
                          0.25,
                          std::shared_ptr<Component>(grouper)};
  for (std::size_t i = 0; i < std::size(values); ++i) parameters[i].set(&o, values[i]);
  EXPECT_TRUE(o.on);
  EXPECT_EQ(o.count, 5);
  EXPECT_EQ(o.rate, 0.5);
  EXPECT_EQ(o.text, "hello");
  EXPECT_EQ(o.rule, Rule::not_top);
  EXPECT_EQ(o.sizes, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(o.names, std::vector<std::string>{"a"});
  EXPECT_EQ(o.budget.unit, "tokens");
  EXPECT_EQ(o.layers.rule, "last 2");
  EXPECT_EQ(o.limit, 0.25);
  EXPECT_EQ(o.grouper, grouper);
}

TEST(Params, what_was_left_out_keeps_its_initial_value) {
  Options o{};
  parameters[9].set(&o, Value{});
  parameters[5].set(&o, Value{});
  EXPECT_FALSE(o.limit.has_value());
  EXPECT_TRUE(o.sizes.empty());
}

TEST(Params, outputs_say_axes_and_when) {
  constexpr Output accuracy = metric("accuracy", "fraction", +1, "right answers").over("domain, set").with("task");
  EXPECT_STREQ(accuracy.axes, "domain, set");
  EXPECT_STREQ(accuracy.when, "task");
  constexpr Output balance = loss("balance", 0.01, "even use");
  EXPECT_TRUE(balance.is_loss);
  EXPECT_EQ(balance.weight, 0.01);
  EXPECT_EQ(balance.better, -1);
}

}  // namespace
}  // namespace moiety
