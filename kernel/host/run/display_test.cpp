#include "kernel/host/run/display.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "kernel/base/files.h"

namespace moiety::host {
namespace {

LiveStage tuned() {
  LiveStage stage;
  stage.label = "tuned (arm clustered, seed 3)";
  stage.unit = "tokens";
  stage.phase = "train";
  stage.done = 410;
  stage.total = 1000;
  stage.rate = 18234;
  stage.loss = 3.21449;
  stage.seconds_left = 119.2;
  return stage;
}

/// What a display writes to a file.
template <class Use>
std::string written(Display::Mode mode, Use use) {
  TemporaryFolder folder;
  {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen((folder / "out").c_str(), "w"), std::fclose);
    Display display(file.get(), mode, 10);
    use(display);
  }
  return *read_file(folder / "out");
}

TEST(Display, a_line_says_share_rate_loss_and_time_left) {
  EXPECT_EQ(line_of(tuned()), "tuned (arm clustered, seed 3)  41 %  18.2k tokens/s  loss 3.214  2 min left");
  LiveStage fresh;
  fresh.label = "split (all arms)";
  EXPECT_EQ(line_of(fresh), "split (all arms)");
  fresh.phase = "evaluate\x1b[2J";
  EXPECT_EQ(line_of(fresh), "split (all arms)  evaluate\\x1b[2J");
  EXPECT_EQ(line_of(LiveTotal{12, 55, 2, 3, 240.7, 359.1}),
            "12 of 55 stages done, 2 running, 3 lost; 4 min so far, about 6 min left");
}

TEST(Display, durations_are_rough) {
  EXPECT_EQ(rough_duration(0), "0 s");
  EXPECT_EQ(rough_duration(0.2), "1 s");
  EXPECT_EQ(rough_duration(59.5), "1 min");
  EXPECT_EQ(rough_duration(125), "2 min 5 s");
  EXPECT_EQ(rough_duration(601), "11 min");
  EXPECT_EQ(rough_duration(3600), "1 h");
  EXPECT_EQ(rough_duration(3900), "1 h 5 min");
  EXPECT_EQ(rough_duration(-5), "0 s");
}

TEST(Display, numbers_are_short) {
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(7), "7");
  EXPECT_EQ(short_number(7.25), "7.2");
  EXPECT_EQ(short_number(999), "999");
  EXPECT_EQ(short_number(18234), "18.2k");
  EXPECT_EQ(short_number(1.2e6), "1.2M");
  EXPECT_EQ(short_number(999999), "1.0M");
  EXPECT_EQ(short_number(3.5e14), "350T");
}

TEST(Display, a_pipe_gets_plain_lines_every_ten_seconds) {
  const auto text = written(Display::Mode::plain, [](Display& display) {
    display.note("start: tuned");
    for (int second = 0; second <= 21; ++second)
      display.update({tuned()}, {0, 2, 1, 0, double(second), std::nullopt}, 100 + second);
  });
  EXPECT_EQ(text, "start: tuned\n" + line_of(tuned()) + "\n0 of 2 stages done, 1 running; 10 s so far\n" + line_of(tuned()) +
                      "\n0 of 2 stages done, 1 running; 20 s so far\n");
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(Display, a_terminal_redraws_in_place_and_a_note_stays_above) {
  const auto text = written(Display::Mode::terminal, [](Display& display) {
    display.update({tuned()}, {0, 2, 1, 0, 1, std::nullopt}, 1);
    display.update({tuned()}, {0, 2, 1, 0, 1, std::nullopt}, 1.05);  // too soon to draw again
    display.note("failed: other");
    display.update({tuned()}, {0, 2, 1, 0, 2, std::nullopt}, 1.1);
  });
  const auto block = line_of(tuned()) + "\n0 of 2 stages done, 1 running; ";
  EXPECT_EQ(text, block + "1 s so far\n\x1b[2A\r\x1b[Jfailed: other\n" + block + "2 s so far\n\x1b[2A\r\x1b[J");
}

/// What a display writes to a terminal so many columns wide.
std::string on_terminal(unsigned short columns) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> screen(::fdopen(::posix_openpt(O_RDWR | O_NOCTTY), "r+"), std::fclose);
  const int number = ::fileno(screen.get());
  EXPECT_EQ(::grantpt(number), 0);
  EXPECT_EQ(::unlockpt(number), 0);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> terminal(std::fopen(::ptsname(number), "w"), std::fclose);
  const winsize size{24, columns, 0, 0};
  EXPECT_EQ(::ioctl(::fileno(terminal.get()), TIOCSWINSZ, &size), 0);
  Display display(terminal.get(), Display::Mode::terminal);
  display.update({tuned()}, {0, 2, 1, 0, 1, std::nullopt}, 1);
  // A terminal may hand over less than was written: two lines are waited for.
  std::string text;
  for (pollfd ready{number, POLLIN, 0}; std::count(text.begin(), text.end(), '\n') < 2 && ::poll(&ready, 1, 5000) > 0;) {
    std::array<char, 4096> some{};
    const auto size_read = ::read(number, some.data(), some.size());
    if (size_read <= 0) break;
    text.append(some.data(), static_cast<std::size_t>(size_read));
  }
  return text;
}

TEST(Display, lines_fit_narrow_terminals_too) {
  EXPECT_EQ(on_terminal(20), "tuned (arm cluster…\r\n0 of 2 stages done…\r\n");
  EXPECT_EQ(on_terminal(10), "tuned (a…\r\n0 of 2 s…\r\n");
  EXPECT_EQ(on_terminal(1), "…\r\n…\r\n");
}

TEST(Display, quiet_shows_only_what_is_important) {
  const auto text = written(Display::Mode::quiet, [](Display& display) {
    display.note("start");
    display.note("failed", true);
    display.update({tuned()}, {}, 100);
  });
  EXPECT_EQ(text, "failed\n");
}

}  // namespace
}  // namespace moiety::host
