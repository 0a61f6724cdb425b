#include "kernel/engine/worker/run.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <new>

#include "kernel/base/files.h"
#include "kernel/base/hash.h"
#include "kernel/base/text.h"
#include "kernel/engine/model/model_file.h"
#include "kernel/engine/stages/artifact.h"
#include "kernel/engine/stages/stage.h"

namespace moiety::engine {
namespace {

/// How a run ended, as the `end` line says it.
struct End {
  std::string state, error, component, function;
  int exit_code = 0;
  Cost cost;
};

double seconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

End from_error(const Error& error) {
  const bool environment = error.kind == ErrorKind::environment;
  return {environment ? "interrupted" : "failed",
          error.message + (error.hint.empty() ? "" : "; " + error.hint),
          "",
          "",
          environment ? error.exit_code() : 1,
          {}};
}

/// Rows that nobody keeps beside series.jsonl: a job that names no registry.
class NoWriter final : public registry::MetricWriter {
 public:
  void log(const registry::MetricRow&) override {}
  Status flush() override { return {}; }
};

Result<std::unique_ptr<registry::MetricWriter>> open_writer(const Job& job) {
  if (job.registry.empty()) return std::unique_ptr<registry::MetricWriter>(new NoWriter);
  return registry::MetricWriter::open(job.registry, job.stage, job.attempt);
}

void report_event(const Job& job, const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  if (job.registry.empty()) return;
  auto registry = registry::Registry::open(job.registry, registry::OpenMode::existing);
  if (!registry) return;  // the metric writer, opened next, tells what is wrong with it
  (void)registry->event("", job.stage, "warning", "worker", message);
}

/// Opens the series where the checkpoint stands; a checkpoint that does not fit its series is set aside like a damaged one.
Result<std::unique_ptr<Series>> open_series(const Job& job, const CheckpointFolder& folder, std::optional<Checkpoint>& resumed) {
  const std::string path = job.work + "/series.jsonl";
  for (;;) {
    auto writer = open_writer(job);
    if (!writer) return pass(writer);
    auto series = Series::open(path, resumed ? resumed->series_bytes : 0, std::move(*writer));
    if (series || !resumed || series.error().kind == ErrorKind::environment) return series;
    report_event(job, "the checkpoint of stage " + job.name + " was set aside, the stage starts anew: " + series.error().message);
    if (auto status = folder.set_aside(); !status) return pass(status);
    resumed.reset();
  }
}

Status publish(const Job& job, StageOutcome& outcome, Series& series, double wall, double cpu) {
  if (auto status = series.flush(); !status) return status;
  const std::string folder = job.work + "/artifact.new";
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  const auto write_all = [&]() -> Status {
    auto rows = read_file(job.work + "/series.jsonl");
    if (!rows) return pass(rows);
    outcome.files["series.jsonl"] = std::move(*rows);
    nlohmann::json more = {{"cost", {{"wall_seconds", wall}, {"cpu_seconds", cpu}, {"peak_memory", peak_memory()}}}};
    if (outcome.step_seconds > 0) more["cost"]["step_seconds"] = outcome.step_seconds;
    if (job.keep_optimizer) more["keeps_optimizer"] = true;
    if (auto status = write_artifact(folder, job, outcome, outcome.model.get(), more); !status) return status;
    if (std::filesystem::exists(job.work + "/snapshots")) std::filesystem::rename(job.work + "/snapshots", folder + "/snapshots");
    return publish_folder(folder, job.artifact);
  };
  auto status = write_all();
  if (!status) std::filesystem::remove_all(folder, ignored);
  return status;
}

/// A worker may have been killed between publishing and saying so.
std::optional<End> finished_before(const Job& job, const CheckpointFolder& folder) {
  if (!std::filesystem::exists(job.artifact + "/manifest.json")) return std::nullopt;
  const auto manifest = read_manifest(job.artifact);
  if (!manifest) return std::nullopt;
  End end;
  end.state = "done";
  const auto cost = manifest->value("cost", nlohmann::json::object());
  end.cost.tokens = cost.value("tokens", 0.0);
  end.cost.flops = cost.value("flops", 0.0);
  if (auto status = folder.remove(); !status) return from_error(status.error());
  return end;
}

End work(const Job& job, Protocol& protocol, const std::atomic<int>& stop, double wall, double cpu) {
  const Verb* verb = find_verb(job.verb);
  if (verb == nullptr) return from_error({ErrorKind::failed, "no verb `" + job.verb + "`", ""});
  if (auto status = make_folders(job.work); !status) return from_error(status.error());
  const CheckpointFolder folder(job.work, job.stage);
  if (auto end = finished_before(job, folder)) return *end;
  ComponentSet components;
  for (const auto& component : job.components)
    if (auto status = components.load(component.file, component.build_id); !status) return from_error(status.error());

  auto loaded = folder.load();
  if (!loaded) return from_error(loaded.error());
  if (!loaded->damage.empty())
    report_event(job,
                 "the checkpoint of stage " + job.name + " was damaged and set aside, the stage starts anew: " + loaded->damage);
  auto series = open_series(job, folder, loaded->checkpoint);
  if (!series) return from_error(series.error());
  if (loaded->checkpoint) std::fprintf(stderr, "resuming after step %lld\n", static_cast<long long>(loaded->checkpoint->step));

  StageContext context{job, components, protocol, **series, folder, std::move(loaded->checkpoint), stop};
  auto outcome = verb->run(context);
  if (!outcome) {
    (void)(*series)->flush();
    return from_error(outcome.error());
  }
  End end;
  end.cost = outcome->cost;
  if (outcome->ending == Ending::interrupted) {
    end.state = "interrupted";
    end.exit_code = 128 + stop.load();
    return end;
  }
  Status status;
  if (outcome->ending == Ending::diverged) {
    status = (*series)->flush();
    end.state = "diverged";
    end.error = outcome->error;
    end.exit_code = exit_diverged;
  } else {
    status = publish(job, *outcome, **series, seconds(CLOCK_MONOTONIC) - wall, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu);
    end.state = "done";
  }
  if (status) status = folder.remove();
  if (!status) {
    End failed = from_error(status.error());
    failed.cost = end.cost;
    return failed;
  }
  return end;
}

/// c10 puts a backtrace behind the first line.
std::string first_line(const char* text) {
  const std::string all = text;
  return all.substr(0, all.find('\n'));
}

}  // namespace

int run_job(const Job& job, Protocol& protocol, const std::atomic<int>& stop) {
  const double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
  End end;
  try {
    const Beat beat(protocol);
    end = work(job, protocol, stop, wall, cpu);
  } catch (const ComponentFailure& failure) {
    end = {"failed", failure.what(), failure.component(), failure.function(), 1, {}};
  } catch (const std::bad_alloc&) {
    end = {"failed", "out of memory", "", "", 1, {}};
  } catch (const std::exception& error) {
    end = {"failed", first_line(error.what()), "", "", 1, {}};
  }
  if (!end.error.empty()) std::fprintf(stderr, "%s\n", end.error.c_str());
  protocol.send({{"end",
                  {{"state", end.state},
                   {"error", end.error},
                   {"component", end.component},
                   {"function", end.function},
                   {"tokens", end.cost.tokens},
                   {"flops", end.cost.flops},
                   {"wall_seconds", seconds(CLOCK_MONOTONIC) - wall},
                   {"cpu_seconds", seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu},
                   {"peak_memory", peak_memory()}}}});
  return end.exit_code;
}

int check_jobs(const std::vector<std::string>& paths, std::string& output) {
  std::map<std::string, PlannedModel> planned;
  ComponentSet components;
  for (const auto& path : paths) {
    const auto job = Job::read(path);
    if (!job) {
      std::fprintf(stderr, "moiety-worker: %s\n", job.error().message.c_str());
      return job.error().exit_code();
    }
    CheckResult result;
    std::error_code ignored;
    // What is there says more than what was planned: how many experts were found.
    for (const auto& input : job->inputs)
      if (std::filesystem::exists(input.path + "/manifest.json", ignored)) planned.erase(input.stage);
    const Verb* verb = find_verb(job->verb);
    for (const auto& component : job->components)
      if (auto status = components.load(component.file, component.build_id); !status)
        result.problems.push_back({component.slot, status.error().message});
    if (verb == nullptr) {
      result.problems.push_back({"do", "no verb `" + job->verb + "`"});
    } else if (result.problems.empty()) {
      try {
        result = verb->check({*job, components, planned});
      } catch (const ComponentFailure& failure) {
        result.problems.push_back({"", failure.what()});
      } catch (const std::exception& error) {
        result.problems.push_back({"", first_line(error.what())});
      }
    }
    if (result.model) planned[job->stage] = *result.model;
    const bool estimate = result.model ? result.model->found_later()
                                       : std::any_of(job->inputs.begin(), job->inputs.end(), [&](const JobInput& input) {
                                           const auto found = planned.find(input.stage);
                                           return found != planned.end() && found->second.found_later();
                                         });
    nlohmann::ordered_json line = {{"stage", job->stage}, {"problems", nlohmann::json::array()}};
    for (const auto& problem : result.problems)
      line["problems"].push_back({{"path", problem.path}, {"message", problem.message}});
    line["cost"] = {{"tokens", result.cost.tokens},
                    {"flops", result.cost.flops},
                    {"total_parameters", result.cost.total_parameters},
                    {"active_parameters", result.cost.active_parameters},
                    {"memory", result.cost.memory},
                    {"estimate", estimate}};
    output += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  return 0;
}

}  // namespace moiety::engine
