#include "kernel/host/catalog.h"

#include <gtest/gtest.h>

#include "kernel/host/recipe/fixture.h"

namespace moiety::host {
namespace {

TEST(Catalog, what_the_worker_and_the_plugins_say_is_read) {
  const Catalog& catalog = testing::fixture_catalog();
  EXPECT_EQ(catalog.torch_version, "1.13.1");
  ASSERT_NE(catalog.verb("evaluate"), nullptr);
  EXPECT_TRUE(catalog.verb("evaluate")->measures);
  EXPECT_TRUE(catalog.verb("evaluate")->seeds.empty());
  EXPECT_EQ(catalog.verb("fly"), nullptr);
  EXPECT_EQ(catalog.component_names("expert_constructor"),
            (std::vector<std::string>{"attention", "copy", "merge", "projected", "split"}));
  EXPECT_EQ(catalog.component("sampler", "by-cluster")->parameters[0].accepts, "clustering");
  const auto* doremi = catalog.component("mixing_scheduler", "doremi");
  ASSERT_NE(doremi, nullptr);
  EXPECT_TRUE(doremi->outputs[0].is_result);
  EXPECT_FALSE(doremi->outputs[2].is_result);
  EXPECT_TRUE(catalog.component("router", "top-k")->outputs[0].is_loss);
  EXPECT_TRUE(catalog.verb("pretrain")->trains());
  EXPECT_FALSE(catalog.verb("construct")->trains());
  const auto* router = catalog.component("router", "top-k");
  ASSERT_NE(router, nullptr);
  EXPECT_EQ(router->file, "/p/routers.moiety.so");
  EXPECT_TRUE(catalog.verb("pretrain")->parameters[0].required) << "no default";
}

TEST(Catalog, without_a_version_the_newest_is_taken) {
  auto files = testing::probed_json();
  auto newer = files[0];
  newer["path"] = "/p/newer.moiety.so";
  newer["components"][0]["version"] = 2;
  newer["components"].erase(1);
  files.push_back(newer);
  const auto catalog = Catalog::from_json(testing::describe_json(), files);
  ASSERT_TRUE(catalog.has_value());
  EXPECT_EQ(catalog->component("router", "top-k")->use(), "top-k@2");
  EXPECT_EQ(catalog->component("router", "top-k@1")->use(), "top-k@1");
  for (const char* wrong : {"top-k@3", "top-k@", "top-k@x", "top-k@1x", "top-k@-1", ""})
    EXPECT_EQ(catalog->component("router", wrong), nullptr) << wrong;
  EXPECT_EQ(catalog->component("clusterer", "top-k"), nullptr);
}

TEST(Catalog, P10_one_broken_file_disables_no_other) {
  auto files = testing::probed_json();
  files.push_back(
      {{"path", "/p/odd.moiety.so"}, {"plugin", {{"name", "odd"}}}, {"build_id", "x"}, {"components", {{{"kind", "router"}}}}});
  files.push_back({{"path", "/q/routers.moiety.so"},
                   {"plugin", {{"name", "copy"}}},
                   {"build_id", "y"},
                   {"components", files[0]["components"]}});
  files.push_back("not even an object");
  const auto catalog = Catalog::from_json(testing::describe_json(), files);
  ASSERT_TRUE(catalog.has_value());
  EXPECT_EQ(catalog->components.size(), testing::fixture_catalog().components.size());
  ASSERT_EQ(catalog->failures.size(), 5U);
  EXPECT_EQ(catalog->failures[0].reason, "built for LibTorch 2.6.0, this is 1.13.1");
  EXPECT_NE(catalog->failures[1].reason.find("`name` is missing"), std::string::npos);
  EXPECT_EQ(catalog->failures[2].reason, "router/top-k@1 is already provided by /p/routers.moiety.so");
}

TEST(Catalog, an_unknown_field_is_ignored_and_a_missing_one_is_an_error) {
  auto describe = testing::describe_json();
  describe["new"] = 1;
  describe["verbs"][0]["colour"] = "red";
  EXPECT_TRUE(Catalog::from_json(describe, {}).has_value());
  describe["verbs"][0].erase("parameters");
  const auto catalog = Catalog::from_json(describe, {});
  ASSERT_FALSE(catalog.has_value());
  EXPECT_EQ(catalog.error().kind, ErrorKind::environment);
  EXPECT_NE(catalog.error().message.find("`parameters` is missing"), std::string::npos);
  EXPECT_FALSE(Catalog::from_json(nullptr, {}).has_value());
  EXPECT_FALSE(Catalog::from_json(nlohmann::json::array({1}), {}).has_value());
}

}  // namespace
}  // namespace moiety::host
