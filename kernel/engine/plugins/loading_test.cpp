#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "kernel/base/files.h"
#include "kernel/engine/plugins/component_set.h"
#include "kernel/engine/plugins/describe.h"
#include "moiety/expert_constructor.h"
#include "moiety/router.h"
#include "moiety_testing/testing.h"

namespace moiety::engine {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string good = MOIETY_BUILD_LIB "/moiety/", bad = MOIETY_BUILD_LIB "/moiety-bad/";

std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

std::string refusal(const std::string& name) {
  const auto library = open_library(bad + name + ".moiety.so");
  return library ? "opened" : library.error().message;
}

TEST(Loading, P03_all_plugins_load_together) {
  ComponentSet set;
  for (const std::string& file : files_of(good)) {
    const Status status = set.load(file);
    EXPECT_TRUE(status) << status.error().message;
  }
  ASSERT_TRUE(set.load(bad + "bad_routers.moiety.so"));
  ASSERT_TRUE(set.load(bad + "own_gradient.moiety.so"));
  for (const char* name : {"avg-k@1", "top-k@1"}) EXPECT_THAT(set.names("router"), Contains(name));
  EXPECT_THAT(set.names("expert_constructor"), Contains("split@1"));
  for (const char* name : {"balanced-kmeans@1", "random@1"}) EXPECT_THAT(set.names("clusterer"), Contains(name));
  EXPECT_THAT(set.names("sampler"), Contains("uniform@1"));
  for (const char* name : {"constant@1", "proportional@1"}) EXPECT_THAT(set.names("mixing_scheduler"), Contains(name));
}

TEST(Loading, P10_a_broken_file_loses_only_itself) {
  ComponentSet set;
  std::vector<std::string> failed;
  for (const char* name : {"not_a_library", "wrong_tag", "no_symbol", "bad_routers", "newer_api"}) {
    if (!set.load(bad + name + ".moiety.so")) failed.emplace_back(name);
  }
  EXPECT_THAT(failed, ::testing::ElementsAre("not_a_library", "wrong_tag", "no_symbol", "newer_api"));
  EXPECT_THAT(set.names("router"), Contains("throws@1"));
}

TEST(Loading, P06_wrong_tag_is_refused_unopened_with_both_sides_and_what_to_do) {
  const TemporaryFolder folder;
  const std::string trace = folder / "opened";
  setenv("MOIETY_FIXTURE_FILE", trace.c_str(), 1);
  const auto library = open_library(bad + "wrong_tag.moiety.so");
  unsetenv("MOIETY_FIXTURE_FILE");
  ASSERT_FALSE(library);
  EXPECT_FALSE(std::filesystem::exists(trace)) << "its static initialiser ran";
  EXPECT_THAT(library.error().message, HasSubstr("built differently from this worker (sdk: plugin 000000000000…, worker "));
  EXPECT_THAT(library.error().message, Not(HasSubstr("compiler")));
  EXPECT_THAT(library.error().hint, HasSubstr("cmake --build"));
}

TEST(Loading, P09_each_file_says_why_it_cannot_be_used) {
  EXPECT_THAT(refusal("not_a_library"), HasSubstr("not a shared library (no ELF header)"));
  EXPECT_THAT(refusal("no_tag"), HasSubstr("not a Moiety plugin: it carries no build tag"));
  EXPECT_THAT(refusal("no_symbol"), HasSubstr("not a Moiety plugin: it exports no moiety_plugin_v1"));
  EXPECT_THAT(refusal("newer_api"), HasSubstr(fmt::format("made for plugin API {}.{}; this worker has {}.{}", api_major,
                                                          api_minor + 1, api_major, api_minor)));
  EXPECT_THAT(refusal("wrong_size"), HasSubstr("its descriptor has 48 bytes"));
  EXPECT_THAT(refusal("outside"), HasSubstr("the table of components lies outside the library"));
  EXPECT_THAT(refusal("twice"), HasSubstr("it has router/none@1 twice"));
  EXPECT_THAT(refusal("needs_missing_library"), HasSubstr("libmoiety_fixture_gone.so"));
  EXPECT_THAT(refusal("is_not_there"), HasSubstr("cannot be read: No such file or directory"));
}

TEST(Loading, P14_only_absolute_paths_are_opened) {
  for (const char* path : {"router_avg_k.moiety.so", "./x.moiety.so", "libc.so.6", ""}) {
    const auto library = open_library(path);
    ASSERT_FALSE(library) << path;
    EXPECT_THAT(library.error().message, HasSubstr("absolute path"));
  }
}

TEST(Loading, P01_P02_a_grad_fn_outlives_all_that_made_it) {
  at::Tensor loss, x;
  {
    ComponentSet set;
    ASSERT_TRUE(set.load(bad + "own_gradient.moiety.so"));
    ConfigProblems problems;
    const auto router = set.make("router", "own-gradient", "router", problems);
    ASSERT_TRUE(router) << problems[0].message;
    RouterInput input;
    x = testing::normal({1, 3, 4}, Random(1)).requires_grad_();
    input.hidden = x;
    loss = call("route", *router, [&] { return router->as<Router>().route(input); }).weights.sum();
  }
  loss.backward();  // into the library, whose every owner is gone
  EXPECT_TRUE(x.grad().eq(0.5).all().item().toBool());
}

TEST(Loading, the_same_file_is_one_library_and_another_build_is_refused) {
  ComponentSet set;
  const std::string file = good + "router_avg_k.moiety.so";
  ASSERT_TRUE(set.load(file));
  ASSERT_TRUE(set.load(file));
  EXPECT_EQ(*open_library(file), *open_library(file));
  EXPECT_TRUE(set.load(file, (*open_library(file))->build_id));
  const Status other = set.load(file, "0123");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("rebuilt since the run was planned"));
}

TEST(Loading, one_component_in_two_files_names_both) {
  const TemporaryFolder folder;
  const std::string copy = folder / "copy.moiety.so", file = good + "router_avg_k.moiety.so";
  std::filesystem::copy_file(file, copy);
  ComponentSet set;
  ASSERT_TRUE(set.load(file));
  const Status status = set.load(copy);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("router/avg-k@1 is in two plugins: " + file + " and " + copy));
}

class Making : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::string& file : files_of(good)) ASSERT_TRUE(set_.load(file));
    ASSERT_TRUE(set_.load(bad + "bad_routers.moiety.so"));
  }
  std::optional<Instance> make(const char* kind, const json& config) {
    problems_.clear();
    return set_.make(kind, config, "feed_forward.router", problems_);
  }
  ComponentSet set_;
  ConfigProblems problems_;
};

TEST_F(Making, names_versions_and_defaults) {
  const auto router = make("router", "avg-k");
  ASSERT_TRUE(router);
  EXPECT_STREQ(router->name, "router/avg-k@1");
  EXPECT_TRUE(make("router", "avg-k@1"));
  EXPECT_TRUE(make("router", {{"use", "avg-k@1"}, {"k", 8}}));
  EXPECT_FALSE(make("router", "avg-k@2"));
  EXPECT_FALSE(make("router", "avg-k@x"));
  EXPECT_FALSE(make("clusterer", "avg-k"));
  EXPECT_THROW(router->as<Clusterer>(), std::logic_error);
}

TEST_F(Making, P09_an_unknown_name_lists_near_and_loaded_ones) {
  EXPECT_FALSE(make("router", "avg_k"));
  ASSERT_EQ(problems_.size(), 1U);
  EXPECT_EQ(problems_[0].path, "feed_forward.router");
  EXPECT_THAT(problems_[0].message, HasSubstr("no router `avg_k` is loaded; did you mean `avg-k`?"));
  EXPECT_THAT(problems_[0].message, HasSubstr("top-k@1"));
}

TEST_F(Making, parts_are_made_and_named) {
  const auto split = make("expert_constructor", {{"use", "split"}, {"count", 4}});
  ASSERT_TRUE(split) << problems_[0].message;
  ASSERT_EQ(split->parts.size(), 1U);
  EXPECT_EQ(split->parts[0].slot, "clusterer");
  EXPECT_STREQ(split->parts[0].name, "clusterer/balanced-kmeans@1");
  const auto random = make("expert_constructor", {{"use", "split"}, {"count", 4}, {"clusterer", {{"use", "random@1"}}}});
  ASSERT_TRUE(random);
  EXPECT_STREQ(random->parts[0].name, "clusterer/random@1");
  EXPECT_FALSE(
      make("expert_constructor", {{"use", "split"}, {"count", 4}, {"clusterer", {{"use", "balanced-kmeans"}, {"restarts", 0}}}}));
  EXPECT_EQ(problems_[0].path, "feed_forward.router.clusterer.restarts");
}

TEST_F(Making, check_reaches_component_and_parts) {
  const auto split = make("expert_constructor", {{"use", "split"}, {"count", 7}});
  ASSERT_TRUE(split);
  Site site;
  site.inner = 512;
  Facts facts;
  facts.site = &site;
  check_all(*split, facts, "feed_forward.experts", problems_);
  ASSERT_EQ(problems_.size(), 1U);
  EXPECT_EQ(problems_[0].path, "feed_forward.experts.count");
  EXPECT_EQ(problems_[0].message, "512 neurons cannot be split into 7 experts of equal size; 4 or 8 would do");
}

TEST_F(Making, weights_of_losses_come_from_the_text_over_the_declaration) {
  const auto router = make("router", {{"use", "top-k"}, {"losses", {{"balance", 0.01}}}});
  ASSERT_TRUE(router) << problems_[0].message;
  EXPECT_EQ(router->loss_weights.at("balance"), 0.01);
  EXPECT_EQ(router->loss_weights.at("z"), 0);
  EXPECT_FALSE(make("router", {{"use", "top-k"}, {"losses", {{"balanc", 0.01}}}}));
  EXPECT_THAT(problems_[0].message, HasSubstr("router/top-k@1 has no loss `balanc`; did you mean `balance`?"));
  EXPECT_FALSE(make("router", {{"use", "top-k"}, {"losses", {{"z", -1}}}}));
  EXPECT_FALSE(make("router", {{"use", "uniform"}, {"losses", {{"balance", 1}}}}));
}

TEST_F(Making, P05_a_constructor_that_throws_is_a_problem) {
  EXPECT_FALSE(make("router", "throws-when-made"));
  ASSERT_EQ(problems_.size(), 1U);
  EXPECT_EQ(problems_[0].message, "router/throws-when-made@1: make: not to be made");
}

TEST_F(Making, state_of_parts_is_kept_apart) {
  const auto split = make("expert_constructor", {{"use", "split"}, {"count", 2}});
  ASSERT_TRUE(split);
  struct Names final : Archive {
    bool reading() const override { return false; }
    void operator()(std::string_view name, at::Tensor&) override { names.insert(std::string(name)); }
    void operator()(std::string_view name, std::int64_t&) override { names.insert(std::string(name)); }
    void operator()(std::string_view name, double&) override { names.insert(std::string(name)); }
    void operator()(std::string_view name, std::vector<std::int64_t>&) override { names.insert(std::string(name)); }
    void operator()(std::string_view name, std::vector<double>&) override { names.insert(std::string(name)); }
    std::set<std::string> names;
  } archive;
  state_of_all(*split, archive);
  EXPECT_EQ(archive.names, std::set<std::string>{"labels"});
}

TEST(Probe, P09_says_all_about_a_good_file_and_the_reason_about_a_bad_one) {
  const json j = probe(good + "router_avg_k.moiety.so");
  EXPECT_FALSE(j.contains("error"));
  EXPECT_EQ(j["plugin"]["name"], "avg-k");
  EXPECT_EQ(j["components"][0]["name"], "avg-k");
  EXPECT_EQ(j["components"][0]["parameters"][1]["choices"], json({"top", "bottom", "not-top", "random", "fixed"}));
  EXPECT_EQ(j["build"], describe_own_build());
  EXPECT_EQ(j["build_id"].get<std::string>().size(), 40U);
  EXPECT_GT(j["size"], 1000);

  const json wrong = probe(bad + "wrong_tag.moiety.so");
  EXPECT_THAT(wrong["error"], StartsWith("built differently from this worker"));
  ASSERT_EQ(wrong["differs"].size(), 1U);
  EXPECT_EQ(wrong["differs"][0]["field"], "sdk");
  EXPECT_THAT(wrong["hint"], HasSubstr("cmake --build"));
  EXPECT_EQ(probe("/no/such.moiety.so")["error"], "cannot be read: No such file or directory");
  EXPECT_EQ(probe(bad + "not_a_library.moiety.so")["error"], "not a shared library (no ELF header)");
}

}  // namespace
}  // namespace moiety::engine
