#include "kernel/engine/plugins/describe.h"

#include <gtest/gtest.h>

#include "moiety/router.h"

namespace moiety::engine {
namespace {

using nlohmann::json;

MOIETY_CHOICE(Rule, top, bottom, not_top);

class Example final : public Router {
 public:
  struct Options {
    std::int64_t k;
    Rule rule;
    double rate;
    std::optional<std::int64_t> limit;
    std::string name;
    std::shared_ptr<Router> inner;
  };
  static constexpr Parameter parameters[] = {param<&Options::k>("k", 2, "experts a token runs").at_least(1).in("experts"),
                                             param<&Options::rule>("rule", Rule::not_top, "which"),
                                             param<&Options::rate>("schedule.rate", 0.5, "how fast").above(0).at_most(1),
                                             optional<&Options::limit>("limit", "at most"),
                                             required<&Options::name>("name", "a name"),
                                             param<&Options::inner>("inner", "top-k", "another router")};
  static constexpr Output outputs[] = {loss("balance", 0.01, "even use"),
                                       metric("used", "fraction", +1, "experts in use").over("domain, set").with("task")};
  explicit Example(const Options&) {}
  RouterCost cost(const Site&) const override { return {}; }
  void bind(const Site&, Parameters&, const Bank&) override {}
  Routing route(const RouterInput&) const override { return {}; }
};

TEST(Describe, gives_the_forms_that_the_catalog_reads) {
  const json j = describe(component<Example>("example", 2, "An example", "Paper, 2024"));
  EXPECT_EQ(j["kind"], "router");
  EXPECT_EQ(j["name"], "example");
  EXPECT_EQ(j["version"], 2);
  EXPECT_EQ(j["source"], "Paper, 2024");
  const json& p = j["parameters"];
  ASSERT_EQ(p.size(), 7U);
  EXPECT_EQ(p[0], json({{"name", "k"},
                        {"type", "integer"},
                        {"default", 2},
                        {"unit", "experts"},
                        {"doc", "experts a token runs"},
                        {"low", 1.0},
                        {"low_open", false}}));
  EXPECT_EQ(p[1]["type"], "choice");
  EXPECT_EQ(p[1]["choices"], json({"top", "bottom", "not-top"}));
  EXPECT_EQ(p[1]["default"], "not-top");
  EXPECT_EQ(p[2]["name"], "schedule.rate");
  EXPECT_TRUE(p[2]["low_open"]);
  EXPECT_FALSE(p[2]["high_open"]);
  EXPECT_TRUE(p[3].contains("default"));
  EXPECT_TRUE(p[3]["default"].is_null());
  EXPECT_FALSE(p[4].contains("default"));
  EXPECT_EQ(p[5]["type"], "component");
  EXPECT_EQ(p[5]["kind"], "router");
  EXPECT_EQ(p[5]["default"], "top-k");
  EXPECT_EQ(p[6]["name"], "losses.balance");
  EXPECT_EQ(p[6]["default"], 0.01);
  const json& o = j["outputs"];
  EXPECT_TRUE(o[0]["loss"]);
  EXPECT_EQ(o[0]["better"], -1);
  EXPECT_EQ(o[1], json({{"name", "used"},
                        {"unit", "fraction"},
                        {"better", 1},
                        {"axes", {"domain", "set"}},
                        {"doc", "experts in use"},
                        {"when", "task"}}));
}

}  // namespace
}  // namespace moiety::engine
