#include "kernel/host/run/stage_end.h"

#include <algorithm>
#include <csignal>

#include "kernel/base/text.h"

namespace moiety::host {
namespace {

constexpr int kEnvironment = 3, kDiverged = 4, kCannotStart = 127;

/// Who was in flight: the crash line knows best, then the end mark, then the last beat.
void name_component(const WorkerFacts& facts, StageEnd* end) {
  if (facts.crash && !facts.crash->component.empty()) {
    end->component = facts.crash->component;
    end->function = facts.crash->function;
  } else if (facts.end && !facts.end->component.empty()) {
    end->component = facts.end->component;
    end->function = facts.end->function;
  } else if (facts.exit.signal != 0 && facts.beat && !facts.beat->component.empty() && !facts.crash) {
    end->component = facts.beat->component;
    end->function = facts.beat->function;
  }
}

std::string in_component(const StageEnd& end) {
  if (end.component.empty()) return "";
  return " in " + end.component + (end.function.empty() ? "" : ", function " + end.function);
}

}  // namespace

StageEnd judge(const WorkerFacts& facts) {
  StageEnd end;
  end.exit_code = facts.exit.code;
  end.signal = facts.exit.signal;
  end.wall_seconds = facts.wall_seconds;
  end.cpu_seconds = facts.exit.cpu_seconds;
  end.peak_memory = facts.exit.peak_memory;
  if (facts.end) {
    end.tokens = facts.end->tokens;
    end.flops = facts.end->flops;
    end.peak_memory = std::max(end.peak_memory, facts.end->peak_memory);
  }
  name_component(facts, &end);
  const std::string said = facts.end ? printable(facts.end->error) : "";
  const std::string words = facts.last_words.empty() ? "" : ": " + printable(facts.last_words);

  // A worker that ended by itself just before the kill is judged by its own end.
  if (!facts.killed.empty() && facts.exit.signal == SIGKILL) {
    end.error = facts.killed;
    return end;
  }
  if (facts.exit.signal != 0) {
    if (facts.stopped) {
      end.state = StageState::interrupted;
      end.error = "stopped by " + signal_name(facts.exit.signal);
      return end;
    }
    end.error = facts.exit.text() + in_component(end);
    if (facts.exit.signal == SIGKILL) end.error += "; not by moiety: out of memory?";
    return end;
  }
  switch (facts.exit.code) {
    case 0:
      if (facts.end && facts.end->state == "done" && facts.artifact) {
        end.state = StageState::done;
      } else if (!facts.end) {
        end.error = "the worker ended without an end mark (a plugin that calls exit?)" + words;
      } else if (facts.end->state == "done") {
        end.error = "the worker left no artifact" + words;
      } else {
        end.error = "the worker ended with code 0 but the state `" + printable(facts.end->state) + "`";
      }
      return end;
    case kDiverged:
      end.state = StageState::diverged;
      end.error = said.empty() ? "the loss is not finite" : said;
      return end;
    case kEnvironment:
      end.state = StageState::interrupted;
      end.environment = true;
      end.error = said.empty() ? "the worker met a problem of this machine" + words : said;
      return end;
    case kCannotStart:
      end.state = StageState::interrupted;
      end.environment = true;
      end.error = "the worker cannot start" + words;
      return end;
    case 128 + SIGINT:
    case 128 + SIGTERM:
      end.state = StageState::interrupted;
      end.error = "stopped by " + signal_name(facts.exit.code - 128);
      return end;
    default:
      end.error = said.empty() ? "the worker ended with " + facts.exit.text() + words : said;
      return end;
  }
}

}  // namespace moiety::host
