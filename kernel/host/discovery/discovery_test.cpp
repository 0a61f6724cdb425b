#include "kernel/host/discovery/discovery.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "kernel/base/files.h"
#include "kernel/base/text.h"
#include "kernel/host/discovery/locate.h"

namespace moiety::host {
namespace {

namespace fs = std::filesystem;

/// Discovery against the fake worker, whose plugins are text files.
class DiscoveryTest : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("FAKE_LOG", (folder_ / "calls").c_str(), 1); }
  void TearDown() override {
    ::unsetenv("FAKE_LOG");
    ::unsetenv("FAKE_DESCRIBE");
  }
  void plugin(const std::string& name, const std::string& text, const std::string& where = "plugins") {
    ASSERT_TRUE(make_folders(folder_ / where));
    ASSERT_TRUE(write_file(folder_ / (where + "/" + name + ".moiety.so"), text));
  }
  Result<Discovery> look(bool rescan = false, double limit = 10) {
    DiscoveryOptions options;
    options.worker = program_folder() + "/moiety-fake-worker";
    options.store = folder_ / "store";
    options.order = {{folder_ / "plugins", "--plugin-path"}, {folder_ / "more", "MOIETY_PLUGIN_PATH"}};
    options.rescan = rescan;
    options.probe_seconds = limit;
    auto found = discover(options);
    if (found) found->cache.save(true);
    return found;
  }
  int calls(const std::string& start) {
    const auto text = read_file(folder_ / "calls");
    int n = 0;
    for (const auto& line : split(text.value_or(""), '\n')) n += !line.empty() && line.rfind(start, 0) == 0 ? 1 : 0;
    return n;
  }
  std::string reason(const Discovery& found, const std::string& name) {
    for (const auto& failure : found.catalog.failures) {
      if (fs::path(failure.file).filename() == name + ".moiety.so") return failure.reason;
    }
    return "";
  }
  TemporaryFolder folder_;
};

TEST_F(DiscoveryTest, several_new_files_share_one_process_and_are_asked_once) {
  plugin("a", "component router top-k 1\n");
  plugin("b", "component router top-k 2\ncomponent sampler uniform 1\n");
  const auto found = look();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->catalog.components.size(), 3U);
  EXPECT_EQ(found->catalog.component("router", "top-k")->version, 2);
  EXPECT_EQ(calls("probe"), 1);
  EXPECT_EQ(calls("describe"), 1);
  const auto again = look();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->catalog.components.size(), 3U);
  EXPECT_EQ(again->asked, 0);
  EXPECT_EQ(calls(""), 2) << "the worker was started again for what is known";
}

TEST_F(DiscoveryTest, P10_one_bad_file_never_disables_the_others) {
  plugin("a_good", "component router top-k 1\n");
  plugin("b_crash", "crash\n");
  plugin("c_error", "error built for LibTorch 2.6.0, this is 1.13.1\n");
  plugin("d_text", "hello\n");
  plugin("e_hang", "hang\n");
  plugin("f_good", "component sampler uniform 1\n");
  fs::create_symlink("g_loop.moiety.so", folder_ / "plugins/g_loop.moiety.so");
  const auto found = look(false, 1.0);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_NE(found->catalog.component("router", "top-k"), nullptr);
  EXPECT_NE(found->catalog.component("sampler", "uniform"), nullptr);
  EXPECT_EQ(found->catalog.failures.size(), 5U);
  EXPECT_EQ(reason(*found, "b_crash"), "killed by signal 11 (SIGSEGV)");
  EXPECT_EQ(reason(*found, "c_error"), "built for LibTorch 2.6.0, this is 1.13.1");
  EXPECT_EQ(reason(*found, "d_text"), "no plugin for this worker");
  EXPECT_EQ(reason(*found, "e_hang"), "gave no answer within 1.0 s (killed)");
  EXPECT_EQ(reason(*found, "g_loop"), "Too many levels of symbolic links");
  // The reasons are remembered too: nothing crashes or hangs twice.
  const int before = calls("probe");
  const auto again = look(false, 1.0);
  ASSERT_TRUE(again);
  EXPECT_EQ(calls("probe"), before);
  EXPECT_EQ(reason(*again, "e_hang"), "gave no answer within 1.0 s (killed)");
  EXPECT_EQ(again->catalog.components.size(), 2U);
}

TEST_F(DiscoveryTest, a_changed_file_and_a_rescan_are_asked_again) {
  plugin("a", "component router top-k 1\n");
  plugin("b", "component router other 1\n");
  ASSERT_TRUE(look());
  plugin("a", "component router top-k 3\n");
  const auto changed = look();
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->asked, 1);
  EXPECT_EQ(changed->catalog.component("router", "top-k")->version, 3);
  EXPECT_EQ(look(true)->asked, 2);
}

TEST_F(DiscoveryTest, a_damaged_cache_is_no_cache) {
  plugin("a", "component router top-k 1\n");
  for (const char* text :
       {"", "{", "[1,2]", "{\"format\":1}", "{\"format\":1,\"surroundings\":{},\"describe\":5,\"files\":{}}", "\xff\xfe"}) {
    ASSERT_TRUE(make_folders(folder_ / "store"));
    ASSERT_TRUE(write_file(folder_ / "store/catalog.json", text));
    const auto found = look();
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->catalog.components.size(), 1U);
    EXPECT_EQ(found->asked, 1) << text;
  }
  // Damage inside a cache that is otherwise right.
  auto cache = nlohmann::json::parse(*read_file(folder_ / "store/catalog.json"));
  cache["files"][0]["file"]["size"] = "big";
  cache["files"].push_back(7);
  cache["files"].push_back({{"file", 3}, {"said", 4}});
  ASSERT_TRUE(write_file(folder_ / "store/catalog.json", cache.dump()));
  EXPECT_EQ(look()->asked, 1);
  cache = nlohmann::json::parse(*read_file(folder_ / "store/catalog.json"));
  cache["files"][0]["said"]["path"] = 3;
  ASSERT_TRUE(write_file(folder_ / "store/catalog.json", cache.dump()));
  EXPECT_EQ(look()->asked, 1);
  EXPECT_EQ(look()->asked, 0);
}

TEST_F(DiscoveryTest, another_library_path_makes_the_cache_worthless) {
  plugin("a", "component router top-k 1\n");
  ASSERT_TRUE(look());
  EXPECT_EQ(look()->asked, 0);
  const char* before = std::getenv("LD_LIBRARY_PATH");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("LD_LIBRARY_PATH", (kept + ":/nowhere").c_str(), 1);
  EXPECT_EQ(look()->asked, 1);
  if (before != nullptr)
    ::setenv("LD_LIBRARY_PATH", kept.c_str(), 1);
  else
    ::unsetenv("LD_LIBRARY_PATH");
}

TEST_F(DiscoveryTest, an_unwritable_cache_is_no_error) {
  plugin("a", "component router top-k 1\n");
  ASSERT_TRUE(write_file(folder_ / "store", "a file in the way"));
  EXPECT_EQ(look()->asked, 1);
  EXPECT_EQ(look()->asked, 1);
}

TEST_F(DiscoveryTest, the_first_in_search_order_hides_the_same_component_later) {
  plugin("z", "component router top-k 1\n", "plugins");
  plugin("a", "component router top-k 1\ncomponent router new 1\n", "more");
  const auto found = look();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->catalog.component("router", "top-k")->file, folder_ / "plugins/z.moiety.so");
  EXPECT_NE(found->catalog.component("router", "new"), nullptr);
  ASSERT_EQ(found->shadowed.size(), 1U);
  EXPECT_EQ(found->shadowed[0].component, "router/top-k@1");
  EXPECT_EQ(found->shadowed[0].file, folder_ / "more/a.moiety.so");
  EXPECT_EQ(found->shadowed[0].by, folder_ / "plugins/z.moiety.so");
}

TEST_F(DiscoveryTest, a_worker_that_cannot_answer_is_an_environment_error) {
  ASSERT_TRUE(make_folders(folder_ / "plugins"));
  ::setenv("FAKE_DESCRIBE", "crash", 1);
  const auto found = look();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::environment);
  EXPECT_NE(found.error().message.find("killed by signal 6 (SIGABRT)"), std::string::npos) << found.error().message;
}

}  // namespace
}  // namespace moiety::host
