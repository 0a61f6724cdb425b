#include "kernel/engine/testing/job_fixture.h"

#include <ATen/Parallel.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <stdexcept>

#include "kernel/base/hash.h"
#include "kernel/engine/checkpoint/safetensors.h"
#include "kernel/engine/testing/tiny_corpus.h"
#include "kernel/engine/worker/job.h"
#include "kernel/engine/worker/run.h"

namespace moiety::engine::testing {
namespace {

void must(const Status& status) {
  if (!status) throw std::runtime_error(status.error().message);
}

std::string library(const std::string& folder, const std::string& file) {
  return std::string(MOIETY_BUILD_FOLDER) + "/lib/" + folder + "/" + file + ".moiety.so";
}

/// All plugins built so far. The worker loads a component by its file; kind and name are for people.
void add_shipped_components(nlohmann::json& job) {
  std::vector<std::string> files;
  const std::string ending = ".moiety.so";
  for (const auto& entry : std::filesystem::directory_iterator(std::string(MOIETY_BUILD_FOLDER) + "/lib/moiety")) {
    const std::string name = entry.path().filename().string();
    if (name.size() > ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0)
      files.push_back(name.substr(0, name.size() - ending.size()));
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) add_component(job, "", file, "moiety", file);
}

}  // namespace

void add_component(nlohmann::json& job, const std::string& kind, const std::string& name, const std::string& folder,
                   const std::string& file) {
  job["components"].push_back(
      {{"slot", ""}, {"kind", kind}, {"name", name}, {"version", 1}, {"file", library(folder, file)}, {"build_id", ""}});
}

TinyStore::TinyStore() {
  corpus_hash_ = write_tiny_corpus(corpus());
  task_hash_ = write_tiny_task(task());
  must(make_folders(folder_ / "objects"));
}

nlohmann::json TinyStore::job(const std::string& verb, const std::string& name, const std::string& from,
                              nlohmann::json config) const {
  must(make_folders(work(name)));
  nlohmann::json json = {{"stage", name},
                         {"name", name},
                         {"verb", verb},
                         {"seeds", {{"init", 3}, {"data", 4}, {"noise", 5}, {"cluster", 6}}},
                         {"config", std::move(config)},
                         {"model", from.empty() ? tiny_model() : nlohmann::json()},
                         {"corpus", {{"path", corpus()}, {"hash", corpus_hash_}}},
                         {"task", {{"path", task()}, {"hash", task_hash_}}},
                         {"components", nlohmann::json::array()},
                         {"registry", ""},
                         {"attempt", 1},
                         {"work", work(name)},
                         {"artifact", artifact(name)},
                         {"threads", 1},
                         {"checkpoint_seconds", 30},
                         {"inputs", nlohmann::json::array()}};
  if (!from.empty()) json["inputs"].push_back({{"name", "from"}, {"stage", from}, {"path", artifact(from)}});
  add_shipped_components(json);
  return json;
}

nlohmann::json TinyStore::pretrain(const std::string& name, const nlohmann::json& changes) const {
  nlohmann::json config = {{"budget", "12 steps"},  {"batch", 4},
                           {"learning_rate", 0.01}, {"mixing", "proportional"},
                           {"sampler", "uniform"},  {"validation", {{"every_steps", 5}, {"windows", 6}}}};
  if (changes.is_object()) config.merge_patch(changes);
  return job("pretrain", name, "", config);
}

nlohmann::json TinyStore::construct(const std::string& name, const std::string& from, const nlohmann::json& router,
                                    const nlohmann::json& experts) const {
  const nlohmann::json made =
      experts.is_null() ? nlohmann::json{{"use", "split"}, {"count", 4}, {"clusterer", "balanced-kmeans"}} : experts;
  return job("construct", name, from, {{"feed_forward", {{"layers", "all"}, {"experts", made}, {"router", router}}}});
}

nlohmann::json TinyStore::topics(const std::string& name) const {
  nlohmann::json json =
      evaluate(name, "", {{"clusterer", {{"use", "k-means"}, {"count", 3}}}, {"window", 16}, {"features", {{"dimensions", 8}}}});
  json["verb"] = "cluster";
  json["model"] = nullptr;
  return json;
}

nlohmann::json TinyStore::whole_models(const std::string& name, const std::string& from, const std::string& clusters,
                                       const nlohmann::json& experts) const {
  const std::string slot = "whole.router.clusters";
  nlohmann::json json =
      job("construct", name, from, {{"whole", {{"experts", experts}, {"router", {{"use", "label"}, {"clusters", slot}}}}}});
  json["inputs"].push_back({{"name", slot}, {"stage", clusters}, {"path", artifact(clusters)}});
  return json;
}

nlohmann::json TinyStore::pretrain_from(const std::string& name, const std::string& from, const nlohmann::json& changes) const {
  nlohmann::json json = pretrain(name, changes);
  json["model"] = nullptr;
  json["inputs"].push_back({{"name", "from"}, {"stage", from}, {"path", artifact(from)}});
  return json;
}

nlohmann::json TinyStore::cluster_experts(const std::string& name, const std::string& from, const nlohmann::json& router) const {
  nlohmann::json nearest = {{"use", "nearest-centre"}, {"clusterer", {{"use", "dbscan"}, {"min_points", 4}}}};
  if (router.is_object()) nearest.merge_patch(router);
  nlohmann::json json = construct(name, from, nearest, {{"use", "copy"}});
  json["config"]["calibrate"] = {{"windows", 96}, {"dimensions", 8}};
  return json;
}

nlohmann::json TinyStore::finetune(const std::string& name, const std::string& from, const nlohmann::json& changes) const {
  nlohmann::json config = {
      {"task", "tiny"}, {"budget", "100 examples"}, {"batch", 8}, {"learning_rate", 0.01}, {"validation", {{"items", 40}}}};
  if (changes.is_object()) config.merge_patch(changes);
  return job("finetune", name, from, config);
}

nlohmann::json TinyStore::evaluate(const std::string& name, const std::string& from, const nlohmann::json& config) const {
  return job("evaluate", name, from, config);
}

std::string TinyStore::digest(const std::string& name, const std::string& file_name) const {
  return sha256_of_file(artifact(name) + "/" + file_name).value_or("no file");
}

std::string TinyStore::file(const std::string& name, const std::string& file_name) const {
  return read_file(artifact(name) + "/" + file_name).value_or("");
}

nlohmann::json TinyStore::manifest(const std::string& name) const { return nlohmann::json::parse(file(name, "manifest.json")); }

TensorMap TinyStore::tensors(const std::string& name, const std::string& file_name) const {
  auto read = parse_safetensors(file(name, file_name), name);
  if (!read) throw std::runtime_error(read.error().message);
  return std::move(*read);
}

int run_stopped_at_every_step(const nlohmann::json& job) {
  constexpr int stopped = 128 + SIGTERM, enough = 100;
  int code = stopped;
  for (int i = 0; i < enough && code == stopped; ++i) code = run_here(job, SIGTERM);
  return code;
}

nlohmann::json planned(const nlohmann::json& job) {
  const std::string path = job.at("work").get<std::string>() + "/job.json";
  must(write_file(path, job.dump()));
  std::string said;
  if (check_jobs({path}, said) != 0) throw std::runtime_error("no check of " + path);
  return nlohmann::json::parse(said);
}

std::string first_problem(const nlohmann::json& job) {
  const auto problems = planned(job)["problems"];
  return problems.empty() ? "none" : problems[0]["path"].get<std::string>();
}

int run_here(const nlohmann::json& json, int stop) {
  const auto job = Job::from_json(json);
  if (!job) throw std::runtime_error(job.error().message);
  at::set_num_threads(job->threads);
  Protocol protocol(-1);
  const std::atomic<int> flag{stop};
  return run_job(*job, protocol, flag);
}

WorkerProcess::WorkerProcess(const nlohmann::json& job, const std::string& limits) {
  const std::string work = job.at("work").get<std::string>(), path = work + "/job.json";
  must(write_file(path, job.dump(1)));
  log_ = work + "/attempt.log";
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
  const std::string command = limits + (limits.empty() ? "" : "; ") + "exec '" + MOIETY_BUILD_FOLDER +
                              "/bin/moiety-worker' --run '" + path + "' 2>>'" + log_ + "'";
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ::close(ends[1]);
  output_ = ends[0];
}

WorkerProcess::~WorkerProcess() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    finish();
  }
}

bool WorkerProcess::read_line() {
  for (;;) {
    if (const auto end = rest_.find('\n'); end != std::string::npos) {
      lines_.push_back(nlohmann::json::parse(rest_.substr(0, end)));
      rest_.erase(0, end + 1);
      return true;
    }
    char buffer[4096];
    const ssize_t got = ::read(output_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    rest_.append(buffer, static_cast<std::size_t>(got));
  }
}

bool WorkerProcess::wait_for(const std::string& key) {
  while (read_line())
    if (lines_.back().contains(key)) return true;
  return false;
}

void WorkerProcess::signal(int number) const { ::kill(pid_, number); }

int WorkerProcess::finish() {
  while (read_line()) {
  }
  ::close(output_);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

nlohmann::json WorkerProcess::last(const std::string& key) const {
  for (auto line = lines_.rbegin(); line != lines_.rend(); ++line)
    if (line->contains(key)) return (*line)[key];
  return nullptr;
}

std::string WorkerProcess::errors() const { return read_file(log_).value_or(""); }

}  // namespace moiety::engine::testing
