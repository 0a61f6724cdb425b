#include "kernel/engine/plugins/assign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "moiety/component.h"

namespace moiety::engine {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

MOIETY_CHOICE(Rule, top, bottom, not_top);

class Part : public Component {
 public:
  static constexpr const char* kind = "part";
};

struct Options {
  bool on;
  std::int64_t k;
  double rate;
  std::string text;
  Rule rule;
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;
  Budget budget;
  Layers layers;
  std::optional<double> limit;
  std::shared_ptr<Part> part;
};

constexpr Parameter parameters[] = {
    param<&Options::on>("on", true, ""),
    param<&Options::k>("k", 2, "").at_least(1),
    param<&Options::rate>("schedule.rate", 0.5, "").above(0).below(1),
    param<&Options::text>("text", "plain", ""),
    param<&Options::rule>("rule", Rule::top, ""),
    optional<&Options::sizes>("sizes", ""),
    optional<&Options::names>("names", ""),
    param<&Options::budget>("budget", "2 epochs", ""),
    param<&Options::layers>("layers", "all", ""),
    optional<&Options::limit>("limit", "").range(0, 1),
    param<&Options::part>("part", "plain", ""),
};

std::shared_ptr<Component> make_part(const Parameter&, const json& config, const std::string& path, ConfigProblems& problems) {
  if (config == "plain") return std::make_shared<Part>();
  problems.push_back({path, "no such part"});
  return nullptr;
}

struct Read {
  Options options;
  ConfigProblems problems;
};
Read read(const json& config) {
  ConfigProblems problems;
  Options o = read_options<Options>(parameters, config, "site", make_part, problems);
  return {std::move(o), problems};
}

TEST(Assign, defaults_are_what_the_declaration_says) {
  const auto [o, problems] = read(json::object());
  ASSERT_TRUE(problems.empty()) << problems[0].message;
  EXPECT_TRUE(o.on);
  EXPECT_EQ(o.k, 2);
  EXPECT_EQ(o.rate, 0.5);
  EXPECT_EQ(o.text, "plain");
  EXPECT_EQ(o.rule, Rule::top);
  EXPECT_TRUE(o.sizes.empty());
  EXPECT_EQ(o.budget.amount, 2);
  EXPECT_EQ(o.budget.unit, "epochs");
  EXPECT_EQ(o.layers.rule, "all");
  EXPECT_FALSE(o.limit);
  EXPECT_NE(o.part, nullptr);
}

TEST(Assign, every_type_takes_its_forms) {
  const auto [o, problems] = read({{"on", false},
                                   {"k", "1.2M"},
                                   {"schedule", {{"rate", 0.25}}},
                                   {"rule", "not-top"},
                                   {"sizes", {1, "2k"}},
                                   {"names", "one"},
                                   {"budget", {{"amount", 15000}, {"unit", "examples"}}},
                                   {"layers", {0, 3}},
                                   {"limit", 1}});
  ASSERT_TRUE(problems.empty()) << problems[0].message;
  EXPECT_FALSE(o.on);
  EXPECT_EQ(o.k, 1200000);
  EXPECT_EQ(o.rate, 0.25);
  EXPECT_EQ(o.rule, Rule::not_top);
  EXPECT_THAT(o.sizes, ElementsAre(1, 2000));
  EXPECT_THAT(o.names, ElementsAre("one"));
  EXPECT_EQ(o.budget.amount, 15000);
  EXPECT_THAT(o.layers.list, ElementsAre(0, 3));
  EXPECT_EQ(o.limit, 1.0);
}

TEST(Assign, budgets_and_layers_may_come_as_text) {
  const auto [o, problems] = read({{"budget", "1.2M tokens"}, {"layers", "last 2"}});
  ASSERT_TRUE(problems.empty());
  EXPECT_EQ(o.budget.amount, 1.2e6);
  EXPECT_EQ(o.layers.rule, "last 2");
  EXPECT_THAT(read({{"layers", {{"rule", ""}, {"list", {1}}}}}).options.layers.list, ElementsAre(1));
  EXPECT_EQ(read({{"layers", {{"rule", "every 2"}, {"list", json::array()}}}}).options.layers.rule, "every 2");
}

TEST(Assign, P06_a_wrong_value_is_told_with_place_and_expectation) {
  const std::pair<json, std::pair<const char*, const char*>> cases[] = {
      {{{"k", 0}}, {"site.k", "must be at least 1, but is 0"}},
      {{{"k", 1.5}}, {"site.k", "must be a whole number, but is 1.5"}},
      {{{"k", "many"}}, {"site.k", "must be a whole number, but is \"many\""}},
      {{{"k", 18446744073709551615ULL}}, {"site.k", "must be a whole number"}},
      {{{"schedule", {{"rate", 1}}}}, {"site.schedule.rate", "must be below 1, but is 1"}},
      {{{"schedule", {{"rate", 0.0}}}}, {"site.schedule.rate", "must be above 0, but is 0"}},
      {{{"rule", "not-to"}}, {"site.rule", "must be one of top, bottom, not-top, but is \"not-to\"; did you mean `not-top`"}},
      {{{"rule", 1}}, {"site.rule", "must be one of top, bottom, not-top, but is 1"}},
      {{{"on", 1}}, {"site.on", "must be true or false"}},
      {{{"text", true}}, {"site.text", "must be a text"}},
      {{{"sizes", {1, "x"}}}, {"site.sizes", "must be a list of whole numbers"}},
      {{{"names", {1}}}, {"site.names", "must be a list of texts"}},
      {{{"budget", "2 hours"}}, {"site.budget", "tokens, steps, epochs, examples"}},
      {{{"budget", "-2 steps"}}, {"site.budget", "must be an amount"}},
      {{{"layers", "first 2"}}, {"site.layers", "\"last 2\""}},
      {{{"layers", {-1}}}, {"site.layers", "numbers of layers"}},
      {{{"part", "other"}}, {"site.part", "no such part"}},
  };
  for (const auto& [config, expected] : cases) {
    const auto [o, problems] = read(config);
    ASSERT_EQ(problems.size(), 1U) << config;
    EXPECT_EQ(problems[0].path, expected.first) << config;
    EXPECT_THAT(problems[0].message, HasSubstr(expected.second)) << config;
  }
}

TEST(Assign, all_problems_are_told_at_once) { EXPECT_EQ(read({{"k", 0}, {"rule", "x"}, {"text", 1}}).problems.size(), 3U); }

TEST(Assign, what_is_required_must_be_given) {
  struct Needs {
    std::int64_t count;
  };
  static constexpr Parameter needs[] = {required<&Needs::count>("count", "how many experts")};
  ConfigProblems problems;
  read_options<Needs>(needs, json::object(), "", nullptr, problems);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].path, "count");
  EXPECT_EQ(problems[0].message, "`count` must be given: how many experts");
}

TEST(Assign, a_selection_of_data_may_have_keys_that_are_parameters_of_their_own) {
  struct Reads {
    DataSelection data;
    std::string split;
  };
  static constexpr Parameter reads[] = {optional<&Reads::data>("data", "which text"),
                                        param<&Reads::split>("data.split", "test", "which part of it")};
  ConfigProblems problems;
  const json config = {{"data", {{"domains", "law"}, {"tokens", "2k"}, {"split", "valid"}}}};
  const auto o = read_options<Reads>(reads, config, "", nullptr, problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(o.split, "valid");
  EXPECT_TRUE(o.data.given);
  EXPECT_EQ(o.data.tokens, 2000);
  EXPECT_EQ(o.data.domains, std::vector<std::string>{"law"});
  EXPECT_FALSE(read_options<Reads>(reads, json::object(), "", nullptr, problems).data.given);
  read_options<Reads>(reads, {{"data", {{"spilt", "valid"}}}}, "", nullptr, problems);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].path, "data.spilt");
  EXPECT_THAT(problems[0].message, HasSubstr("did you mean `split`"));
}

TEST(Assign, sets_are_names_or_selections_under_labels) {
  struct Reads {
    Sets on;
  };
  static constexpr Parameter reads[] = {optional<&Reads::on>("on", "what is measured")};
  ConfigProblems problems;
  const auto read = [&](const json& on) { return read_options<Reads>(reads, {{"on", on}}, "", nullptr, problems).on; };
  EXPECT_EQ(read("test").names, std::vector<std::string>{"test"});
  EXPECT_EQ(read({"test", "valid"}).names.size(), 2U);
  const Sets text = read({{"seen", {{"without", "law"}}}, {"unseen", {{"domains", "law"}, {"tokens", 100}}}});
  ASSERT_EQ(text.text.size(), 2U);
  EXPECT_EQ(text.text[1].first, "unseen");
  EXPECT_EQ(text.text[1].second.tokens, 100);
  EXPECT_TRUE(problems.empty());
  read({{"seen", {{"domain", "law"}}}});
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].path, "on.seen.domain");
}

TEST(Assign, T26_unknown_key_is_told_with_a_near_name) {
  ConfigProblems problems;
  unknown_keys(parameters, std::size(parameters), {{"do", "x"}, {"kk", 1}, {"schedule", {{"rte", 1}, {"rate", 1}}}, {"limit", 1}},
               "site", {"do"}, problems);
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0].path, "site.kk");
  EXPECT_EQ(problems[1].path, "site.schedule.rte");
  EXPECT_THAT(problems[1].message, HasSubstr("did you mean `schedule.rate`"));
}

TEST(Assign, a_configuration_that_is_no_table_is_refused) {
  EXPECT_EQ(read(json::array({1})).problems.size(), 1U);
  EXPECT_EQ(read("text").problems.size(), 1U);
  EXPECT_TRUE(read(nullptr).problems.empty());
}

}  // namespace
}  // namespace moiety::engine
