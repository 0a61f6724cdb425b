// The misbehaving routers of tests/fixtures/plugins behind the guard.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "kernel/engine/plugins/component_set.h"
#include "kernel/engine/plugins/crash.h"
#include "kernel/engine/plugins/describe.h"
#include "moiety/router.h"
#include "moiety_testing/testing.h"

namespace moiety::engine {
namespace {

using ::testing::HasSubstr;

const std::string bad = MOIETY_BUILD_LIB "/moiety-bad/";

class Misbehaviour : public ::testing::Test {
 protected:
  Misbehaviour() : bank_({{"in", testing::normal({4, 2, 3}, Random(1))}}) {
    site_.width = 3, site_.inner = 8, site_.experts = 4;
    input_.hidden = testing::normal({1, 5, 3}, Random(2));
  }
  void SetUp() override { ASSERT_TRUE(set_.load(bad + "bad_routers.moiety.so")); }
  Instance make(const char* name) {
    ConfigProblems problems;
    auto instance = set_.make("router", {{"use", name}, {"after", 2}}, "router", problems);
    if (!instance) throw std::runtime_error(problems[0].message);
    instance->as<Router>().bind(site_, parameters_, bank_);
    return *instance;
  }
  Routing route(const Instance& router) {
    return call("route", router, [&] { return router.as<Router>().route(input_); });
  }
  std::string second_call(const char* name) {
    const Instance router = make(name);
    EXPECT_EQ(route(router).experts.sizes().vec(), (std::vector<std::int64_t>{5, 2}));
    try {
      route(router);
    } catch (const ComponentFailure& e) {
      return e.what();
    }
    return "nothing thrown";
  }
  ComponentSet set_;
  Site site_;
  RouterInput input_;
  testing::TestParameters parameters_;
  testing::TestBank bank_;
};

TEST_F(Misbehaviour, P05_thrown_in_route) {
  EXPECT_EQ(second_call("throws"), "router/throws@1: route: thrown on purpose");
  EXPECT_EQ(second_call("foreign"), "router/foreign@1: route: threw something that is not a std::exception");
}

TEST_F(Misbehaviour, fixtures_give_a_wrong_shape_and_no_numbers) {
  const Instance shape = make("wrong-shape"), number = make("not-a-number");
  route(shape);
  EXPECT_EQ(route(shape).experts.size(0), 6);
  EXPECT_FALSE(route(number).weights.defined());
  EXPECT_TRUE(route(number).weights.isnan().all().item().toBool());
}

#if !defined(__SANITIZE_ADDRESS__)
/// What a child writes to its descriptor before it ends, or is killed when a line with `enough` has come.
std::string told_by_child(const std::function<void(int)>& body, const std::string& enough, int& status) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    body(ends[1]);
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[512];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<std::size_t>(n));
    if (!enough.empty() && text.find(enough) != std::string::npos) kill(child, SIGKILL);
  }
  close(ends[0]);
  waitpid(child, &status, 0);
  return text;
}

TEST_F(Misbehaviour, P13_segfault_in_route_is_told_by_name) {
  int status = 0;
  const std::string text = told_by_child(
      [&](int fd) {
        install_crash_handler(fd);
        const Instance router = make("segfaults");
        for (int i = 0; i < 2; ++i) route(router);
      },
      "", status);
  EXPECT_EQ(text, "{\"crash\":{\"signal\":11,\"component\":\"router/segfaults@1\",\"function\":\"route\"}}\n");
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

TEST_F(Misbehaviour, P13_crash_while_a_library_is_opened_names_the_file) {
  int status = 0;
  const std::string file = bad + "crashes_on_load.moiety.so";
  const std::string text = told_by_child(
      [&](int fd) {
        install_crash_handler(fd);
        probe(file);
      },
      "", status);
  EXPECT_EQ(text, "{\"crash\":{\"signal\":11,\"component\":\"" + file + "\",\"function\":\"open\"}}\n");
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

TEST_F(Misbehaviour, hanging_in_route_is_seen_from_another_thread) {
  int status = 0;
  const std::string text = told_by_child(
      [&](int fd) {
        const Instance router = make("hangs");
        std::thread beat([&] {
          for (;;) {
            usleep(20000);
            const auto call_now = in_flight();
            if (call_now && call_now->seconds > 0.1) dprintf(fd, "%s %s\n", call_now->component, call_now->function);
          }
        });
        for (int i = 0; i < 2; ++i) route(router);
      },
      "router/hangs@1 route\n", status);
  EXPECT_THAT(text, HasSubstr("router/hangs@1 route\n"));
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}
#endif

}  // namespace
}  // namespace moiety::engine
