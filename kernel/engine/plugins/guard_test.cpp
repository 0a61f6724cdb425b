#include "kernel/engine/plugins/guard.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <stdexcept>
#include <thread>

#include "kernel/engine/plugins/crash.h"

namespace moiety::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Stranger {};

template <class Body>
ComponentFailure failure_of(Body&& body) {
  try {
    call("route", "router/x@1", body);
  } catch (const ComponentFailure& e) {
    return e;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {"", "", ""};
}

TEST(Guard, P05_whatever_is_thrown_becomes_one_line_with_component_and_function) {
  EXPECT_STREQ(failure_of([] { throw std::runtime_error("first\nsecond"); }).what(), "router/x@1: route: first");
  EXPECT_STREQ(failure_of([] { throw std::bad_alloc(); }).what(), "router/x@1: route: out of memory");
  EXPECT_STREQ(failure_of([] { throw "plain text"; }).what(), "router/x@1: route: plain text");
  EXPECT_STREQ(failure_of([] { throw Stranger{}; }).what(), "router/x@1: route: threw something that is not a std::exception");
  EXPECT_STREQ(failure_of([] { throw std::runtime_error("\x1b[2J"); }).what(), "router/x@1: route: \\x1b[2J");
  const ComponentFailure c10_error = failure_of([] { TORCH_CHECK(false, "sizes differ: ", 3); });
  EXPECT_EQ(c10_error.text(), "sizes differ: 3");
  EXPECT_THAT(c10_error.what(), Not(HasSubstr("frame #")));
}

TEST(Guard, an_inner_failure_keeps_its_name) {
  const ComponentFailure e = failure_of([] { call("fit", "clusterer/y@1", [] { throw std::runtime_error("no"); }); });
  EXPECT_EQ(e.component(), "clusterer/y@1");
  EXPECT_EQ(e.function(), "fit");
}

TEST(Guard, gives_what_the_call_returns) {
  int number = 5;
  EXPECT_EQ(call("route", "router/x@1", [] { return 7; }), 7);
  int& reference = call("route", "router/x@1", [&]() -> int& { return number; });
  EXPECT_EQ(&reference, &number);
}

TEST(Guard, in_flight_names_the_innermost_call_and_ends_with_it) {
  EXPECT_FALSE(in_flight());
  call("plan", "expert_constructor/a@1", [] {
    EXPECT_STREQ(in_flight()->component, "expert_constructor/a@1");
    call("fit", "clusterer/b@1", [] {
      EXPECT_STREQ(in_flight()->component, "clusterer/b@1");
      EXPECT_STREQ(in_flight()->function, "fit");
    });
    EXPECT_STREQ(in_flight()->function, "plan");
  });
  failure_of([] { throw Stranger{}; });
  EXPECT_FALSE(in_flight());
}

TEST(Guard, another_thread_sees_whole_records_and_how_long) {
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    while (!stop) {
      call("one", "router/one@1", [] {});
      call("two", "router/two@1", [] {});
    }
    call("slow", "router/slow@1", [] { std::this_thread::sleep_for(std::chrono::milliseconds(400)); });
  });
  int seen = 0;
  const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (seen < 20000 && std::chrono::steady_clock::now() < late) {
    const auto found = in_flight();
    if (!found) continue;
    ++seen;
    ASSERT_EQ(std::string(found->component), "router/" + std::string(found->function) + "@1");
  }
  EXPECT_GT(seen, 1000);
  stop = true;
  double longest = 0;
  for (int i = 0; i < 400 && longest < 0.05; ++i) {
    if (const auto found = in_flight(); found && std::string(found->function) == "slow")
      longest = std::max(longest, found->seconds);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  worker.join();
  EXPECT_GT(longest, 0.05);
  EXPECT_LT(longest, 5);
}

TEST(Guard, kept_text_is_one_pointer_a_text) {
  EXPECT_EQ(kept_text("router/x@1"), kept_text(std::string("router/") + "x@1"));
  EXPECT_NE(kept_text("router/x@1"), kept_text("router/x@2"));
}

#if !defined(__SANITIZE_ADDRESS__)
int deep(volatile int n) {
  volatile char room[4096] = {};
  return n <= 0 ? room[0] : deep(n + 1) + room[1];
}

TEST(CrashDeathTest, P13_signal_component_and_function_are_told) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        install_crash_handler(2);
        call("route", "router/x@1", [] { raise(SIGSEGV); });
      },
      ::testing::KilledBySignal(SIGSEGV), R"(\{"crash":\{"signal":11,"component":"router/x@1","function":"route"\}\})");
  EXPECT_EXIT(
      {
        install_crash_handler(2);
        abort();
      },
      ::testing::KilledBySignal(SIGABRT), R"(\{"crash":\{"signal":6\}\})");
  EXPECT_EXIT(
      {
        install_crash_handler(2);
        call("route", "router/deep@1", [] { deep(1); });
      },
      ::testing::KilledBySignal(SIGSEGV), R"("component":"router/deep@1")");
}
#endif

}  // namespace
}  // namespace moiety::engine
