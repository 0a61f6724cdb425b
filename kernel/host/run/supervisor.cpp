#include "kernel/host/run/supervisor.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "kernel/base/files.h"
#include "kernel/base/text.h"
#include "kernel/host/json_fields.h"
#include "kernel/host/run/interrupts.h"

namespace moiety::host {
namespace {

constexpr double kHeartbeat = 5, kBusyRetry = 0.5;
constexpr int kPollMilliseconds = 100;

/// What is left of a stage's results that people ask for at once: the pretraining's loss beside a unigram model's.
std::string loss_text(const nlohmann::json& manifest) {
  const auto& results = member_at(manifest, "results");
  std::optional<double> loss;
  for (const char* key : {"validation_loss", "valid_loss", "loss"}) {
    if (!loss) loss = real_at(results, key);
  }
  const auto unigram = real_at(results, "unigram_loss");
  if (!loss) return "";
  std::string text = fmt::format("validation loss {:.3f} nats", *loss);
  if (unigram) text += " a token";
  if (unigram) text += fmt::format("; a unigram model of the same tokens: {:.3f}", *unigram);
  return text;
}

}  // namespace

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

Supervisor::Supervisor(const JobContext& context, Recorder& recorder, Display& display, SupervisorOptions options)
    : context_(context), recorder_(recorder), display_(display), options_(std::move(options)), board_(context.plan) {
  summary_.total = board_.size();
}

std::string Supervisor::label(const PlannedStage& stage) const {
  return printable(instance_text(stage.name, stage.labels) + " (" + whose(context_.plan, stage) + ")");
}

void Supervisor::take_over() {
  for (const auto& stage : context_.plan.stages) {
    const auto found = options_.before.find(stage.id);
    if (found == options_.before.end() || board_.state(stage.id) != StageState::waiting) continue;
    if (found->second == StageState::waiting || found->second == StageState::running) continue;
    for (const auto* reader : board_.end(stage.id, found->second)) note_status(recorder_.skip(*reader));
  }
}

RunSummary Supervisor::run() {
  begin_ = now_seconds();
  take_over();
  for (;;) {
    look_at_interrupts(now_seconds());
    if (!stopping_) start_what_can();
    if (running_.empty() && (stopping_ || board_.ready().empty())) break;
    poll_workers();
    show(now_seconds());
  }
  summary_.done = board_.count(StageState::done);
  summary_.skipped = board_.count(StageState::skipped);
  for (const auto& stage : context_.plan.stages) {
    summary_.states[stage.id] = board_.state(stage.id);
    if (board_.state(stage.id) != StageState::done) summary_.not_done.insert(stage.id);
  }
  summary_.seconds = now_seconds() - begin_;
  return std::move(summary_);
}

bool Supervisor::fits(const PlannedStage& stage) const {
  if (running_.empty()) return true;
  if (options_.jobs > 0 && running_.size() >= static_cast<std::size_t>(options_.jobs)) return false;
  int threads = stage.threads;
  for (const auto& running : running_) threads += running.worker->threads();
  return threads <= options_.cores;
}

void Supervisor::start_what_can() {
  const double now = now_seconds();
  const bool try_busy = !told_busy_.empty() && now - tried_busy_at_ >= kBusyRetry;
  if (!changed_ && !try_busy) return;
  if (try_busy) tried_busy_at_ = now;
  changed_ = false;
  full_ = false;
  bool again = true;
  // A stage taken from the store makes its readers ready at once.
  while (again && !stopping_) {
    again = false;
    for (const auto* stage : board_.ready()) {
      if (told_busy_.count(stage->id) != 0 && !try_busy) continue;
      const auto result = start(*stage);
      if (result == Start::stopped) return;
      again = again || result == Start::ended;
    }
  }
}

Supervisor::Start Supervisor::start(const PlannedStage& stage) {
  // Ctrl-C while many stages are taken from the store.
  if (Interrupts::pending() != 0 && interrupts_seen_ == 0) return Start::stopped;
  auto stored = context_.store.look_up(stage);
  const auto recorded = recorder_.state(stage);
  if (!note_status(recorded ? Status() : Status(pass(recorded)))) return Start::stopped;
  if (stored.state == StoredStage::State::whole && *recorded == "done") return reuse(stage, stored.manifest);
  if (stored.state != StoredStage::State::whole && *recorded == "diverged") {
    StageEnd end;
    end.state = StageState::diverged;
    end.error = "diverged in an earlier run; the same stage would do so again";
    lose(stage, end, "");
    return Start::ended;
  }
  // Without room only what lies in the store is taken. Stages start in the order of the plan: a small one never overtakes a wide
  // one that waits for cores, else that might wait for all of them.
  if (stored.state != StoredStage::State::whole && (full_ || !fits(stage))) {
    full_ = true;
    return Start::busy;
  }

  if (!note_status(context_.store.prepare_work(stage.id))) return Start::stopped;
  auto lock = context_.store.lock(stage.id);
  if (!note_status(lock ? Status() : Status(pass(lock)))) return Start::stopped;
  if (!*lock) {
    if (told_busy_.insert(stage.id).second) display_.note(label(stage) + ": another run works on it; waiting for its result");
    return Start::busy;
  }
  // Whoever had the lock until now may have finished it.
  stored = context_.store.look_up(stage);
  if (stored.state == StoredStage::State::whole) {
    const auto state = recorder_.state(stage);
    if (state && *state != "done" && !note_status(recorder_.fill(stage, stored.manifest))) return Start::stopped;
    told_busy_.erase(stage.id);
    return reuse(stage, stored.manifest);
  }
  if (full_ || !fits(stage)) return Start::busy;
  if (stored.state != StoredStage::State::absent && !set_aside(stage, stored)) return Start::stopped;
  told_busy_.erase(stage.id);
  return note_status(launch(stage, std::move(**lock))) ? Start::started : Start::stopped;
}

/// Moves away a stored result that cannot be used, and says so.
bool Supervisor::set_aside(const PlannedStage& stage, const StoredStage& stored) {
  const auto aside = context_.store.set_aside(stage.id);
  if (!note_status(aside ? Status() : Status(pass(aside)))) return false;
  const bool damaged = stored.state == StoredStage::State::damaged;
  const std::string message = fmt::format("its stored result {} ({}), moved to {}; it is run anew",
                                          damaged ? "is damaged" : "is not enough", stored.problem, *aside);
  display_.note(label(stage) + ": " + printable(message), true);
  return note_status(recorder_.event(stage.id, damaged ? "warning" : "info", message));
}

Supervisor::Start Supervisor::reuse(const PlannedStage& stage, const nlohmann::json& manifest) {
  board_.end(stage.id, StageState::done);
  ++summary_.reused;
  const auto text = loss_text(manifest);
  if (text.find("unigram") != std::string::npos) {
    display_.note("in the store: " + label(stage) + "; " + text);
    summary_.losses.push_back(label(stage) + ": " + text);
  }
  return Start::ended;
}

/// A stage that cannot even be started fails.
Status Supervisor::refuse(const PlannedStage& stage, std::int64_t attempt, const std::string& why) {
  StageEnd end;
  end.error = why;
  if (auto status = recorder_.end_attempt(stage, attempt, end, ""); !status) return status;
  lose(stage, end, "");
  return {};
}

Status Supervisor::launch(const PlannedStage& stage, Descriptor lock) {
  const auto log = context_.store.next_log(stage.id);
  const auto attempt = recorder_.begin_attempt(stage, log, 0);
  if (!attempt) return pass(attempt);
  const auto give_up = [&](const Error& error) -> Status {
    StageEnd end;
    end.state = StageState::interrupted;
    end.error = error.message;
    if (auto status = recorder_.end_attempt(stage, *attempt, end, ""); !status) return status;
    return tl::unexpected<Error>(error);
  };
  if (const auto why = options_.refused.find(stage.id); why != options_.refused.end())
    return refuse(stage, *attempt, why->second);
  const auto job = make_job(context_, stage, *attempt);
  if (!job) return refuse(stage, *attempt, job.error().message + (job.error().hint.empty() ? "" : "; " + job.error().hint));
  const auto text = [](const nlohmann::json& value) {
    return value.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  };
  // What the identity was made of stays beside the logs: `moiety plan` explains by it what made a stage stale.
  if (auto status = write_file(context_.store.identity(stage.id), text(stage.identity_text)); !status)
    return give_up(status.error());
  const auto path = context_.store.work(stage.id) + "/job.json";
  if (auto status = write_file(path, text(*job)); !status) return give_up(status.error());

  Command command;
  command.words = {options_.worker, "--run", path};
  const auto threads = std::to_string(stage.threads);
  command.environment = {{"OMP_NUM_THREADS", threads},     {"OPENBLAS_NUM_THREADS", threads},
                         {"MKL_NUM_THREADS", threads},     {"OMP_WAIT_POLICY", "passive"},
                         {"MOIETY_DB", context_.registry}, {"MOIETY_STORE", context_.store.folder()}};
  command.stderr_file = log;
  command.inherited = lock.get();
  auto child = Child::start(command);
  if (!child) return give_up(child.error());
  if (auto status = recorder_.set_process(*attempt, child->pid()); !status) return give_up(status.error());
  board_.set_running(stage.id);
  running_.push_back({&stage, *attempt, std::make_unique<Worker>(std::move(*child), std::move(lock), log, stage.threads), {}});
  display_.note("start: " + label(stage) + (context_.store.has_checkpoint(stage.id) ? ", from its checkpoint" : ""));
  return {};
}

void Supervisor::poll_workers() {
  std::vector<pollfd> waiting;
  waiting.push_back({Interrupts::descriptor(), POLLIN, 0});
  for (const auto& running : running_) waiting.push_back({running.worker->descriptor(), POLLIN, 0});
  ::poll(waiting.data(), waiting.size(), kPollMilliseconds);
  if (waiting[0].revents != 0) Interrupts::drain();

  const double now = now_seconds();
  const bool beat = now - beaten_at_ >= kHeartbeat;
  if (beat) beaten_at_ = now;
  std::vector<Running> ended;
  for (auto running = running_.begin(); running != running_.end();) {
    if (running->worker->read() && running->worker->progress()) running->rate.see(running->worker->progress()->done, now);
    running->worker->enforce(options_.limits);
    if (beat) note_status(recorder_.heartbeat(running->attempt));
    if (running->worker->ended()) {
      ended.push_back(std::move(*running));
      running = running_.erase(running);
    } else {
      ++running;
    }
  }
  for (auto& one : ended) finish(one);
}

void Supervisor::finish(Running& running) {
  const auto& stage = *running.stage;
  auto facts = running.worker->facts();
  const auto stored = context_.store.look_up(stage);
  const bool lacking = stored.state == StoredStage::State::lacking;
  facts.artifact = lacking || stored.state == StoredStage::State::whole;
  auto end = judge(facts);
  if (lacking && end.state == StageState::done) {
    end.state = StageState::failed;
    end.error = "the worker left its artifact, but " + stored.problem;
  }
  changed_ = true;
  note_status(recorder_.end_attempt(stage, running.attempt, end, running.worker->stderr_tail()));
  ++summary_.ran;
  switch (end.state) {
    case StageState::done: {
      board_.end(stage.id, StageState::done);
      durations_.ended(stage.name, end.wall_seconds,
                       options_.flops.count(stage.id) != 0 ? options_.flops.at(stage.id) : end.flops);
      const auto text = loss_text(stored.manifest);
      if (text.find("unigram") != std::string::npos) summary_.losses.push_back(label(stage) + ": " + text);
      display_.note("done: " + label(stage) + " in " + duration(end.wall_seconds) + (text.empty() ? "" : "; " + text));
      return;
    }
    case StageState::interrupted:
      board_.end(stage.id, StageState::interrupted);
      if (end.environment) {
        stop_for({ErrorKind::environment, label(stage) + ": " + end.error,
                  "put that right, then run the same command again: it goes on from the checkpoints"});
      } else if (!stopping_) {
        // Somebody else stopped this one worker: it can be resumed, so it is no failure, but this run does not finish it.
        display_.note("interrupted: " + label(stage) + ": " + end.error + "; the same command goes on with it", true);
        summary_.interrupted.push_back({&stage, end, running.worker->log()});
      }
      return;
    default:
      lose(stage, end, running.worker->log());
  }
}

void Supervisor::lose(const PlannedStage& stage, const StageEnd& end, const std::string& log) {
  const auto skipped = board_.end(stage.id, end.state);
  for (const auto* reader : skipped) note_status(recorder_.skip(*reader));
  const bool failed = end.state == StageState::failed;
  auto& list = failed ? summary_.failed : summary_.diverged;
  list.push_back({&stage, end, log});
  std::string line = std::string(name(end.state)) + ": " + label(stage) + ": " + printable(end.error);
  if (!skipped.empty())
    line += fmt::format("; {} stage{} that read{} it skipped", skipped.size(), skipped.size() == 1 ? "" : "s",
                        skipped.size() == 1 ? "s" : "");
  if (!log.empty()) line += "\n  log: " + log;
  display_.note(line, true);
  if (failed && options_.max_failures > 0 && static_cast<int>(summary_.failed.size()) >= options_.max_failures && !stopping_) {
    summary_.gave_up = true;
    display_.note(
        fmt::format("{} failed stage{} (--max-failures): stopping", options_.max_failures, options_.max_failures == 1 ? "" : "s"),
        true);
    stop_all(SIGINT);
  }
}

void Supervisor::look_at_interrupts(double now) {
  const int count = Interrupts::count();
  if (count > interrupts_seen_) {
    if (interrupts_seen_ == 0) {
      summary_.signal = Interrupts::pending();
      display_.note(running_.empty() ? "stopping" : "stopping: the workers write their checkpoints (once more: at once)", true);
      stop_all(summary_.signal);
    }
    if (count >= 2) kill_at_ = now;
    interrupts_seen_ = count;
  }
  if (stopping_ && kill_at_ > 0 && now >= kill_at_) {
    for (auto& running : running_) running.worker->stop(SIGKILL);
    kill_at_ = now + options_.stop_seconds;
  }
}

void Supervisor::stop_all(int signal) {
  stopping_ = true;
  if (kill_at_ == 0) kill_at_ = now_seconds() + options_.stop_seconds;
  for (auto& running : running_) running.worker->stop(signal);
}

void Supervisor::stop_for(const Error& error) {
  if (!summary_.environment) {
    summary_.environment = error;
    display_.note("stopping: " + printable(error.message), true);
  }
  if (!stopping_) stop_all(SIGTERM);
}

bool Supervisor::note_status(const Status& status) {
  if (status) return true;
  stop_for(status.error());
  return false;
}

void Supervisor::show(double now) {
  std::vector<LiveStage> live;
  for (const auto& running : running_) {
    LiveStage line;
    line.label = label(*running.stage);
    if (const auto& progress = running.worker->progress()) {
      line.unit = progress->unit;
      line.phase = progress->phase;
      line.done = progress->done;
      line.total = progress->total;
      line.loss = progress->loss;
      line.rate = running.rate.per_second();
      line.seconds_left = running.rate.seconds_for(progress->total - progress->done);
    }
    live.push_back(std::move(line));
  }
  LiveTotal total;
  total.done = board_.count(StageState::done);
  total.total = board_.size() + options_.unknown;
  total.running = running_.size();
  total.lost = board_.count(StageState::failed) + board_.count(StageState::diverged) + board_.count(StageState::skipped);
  total.seconds = now - begin_;
  total.seconds_left = seconds_left();
  display_.update(live, total, now);
}

std::optional<double> Supervisor::seconds_left() const {
  double work = 0;  // core-seconds
  for (const auto& stage : context_.plan.stages) {
    const auto state = board_.state(stage.id);
    if (state != StageState::waiting && state != StageState::running) continue;
    std::optional<double> seconds;
    if (state == StageState::running) {
      for (const auto& running : running_) {
        if (running.stage != &stage) continue;
        if (const auto& progress = running.worker->progress())
          seconds = running.rate.seconds_for(progress->total - progress->done);
      }
    }
    if (!seconds) {
      const auto flops = options_.flops.find(stage.id);
      seconds = durations_.expect(stage.name, flops != options_.flops.end() ? flops->second : 0);
    }
    if (!seconds) return std::nullopt;
    work += *seconds * std::min(stage.threads, options_.cores);
  }
  return work / options_.cores;
}

}  // namespace moiety::host
