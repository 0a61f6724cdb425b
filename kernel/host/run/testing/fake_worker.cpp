// A worker without LibTorch for the tests of the host. It speaks the protocol of moiety-worker; what a stage does is said by its
// parameter `behave`:  WHAT[@SEED][!once]  with WHAT one of succeed, fail, crash, hang, quiet, exit, memory, diverge,
// environment, slow, stubborn, no-artifact, refuse. `@SEED` limits it to one seed, `!once` to the first time in this store. Every
// call is a line in $FAKE_LOG.
//
// A "plugin" is a text file: a line `component KIND NAME VERSION [PARAMETER]` each, or `error TEXT`, or `crash`, or `hang`.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "kernel/base/files.h"
#include "kernel/base/hash.h"
#include "kernel/base/text.h"
#include "registry/registry.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

volatile std::sig_atomic_t asked_to_stop = 0;

void log_call(const std::string& line) {
  const char* path = std::getenv("FAKE_LOG");
  if (path == nullptr) return;
  std::ofstream(path, std::ios::app) << line + "\n";
}

void say(const json& message) {
  std::fputs((message.dump() + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void pause_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

const char* const kDescription = R"json({
  "worker": {"version": "0.1.0", "build_id": "fake-worker", "torch_version": "none", "torch_build_id": "none", "sdk": "1", "results_revision": 1, "cpu": "fake"},
  "model": [{"name": "layers", "type": "integer", "default": 2, "low": 1, "doc": "blocks"}],
  "verbs": [
    {"name": "pretrain", "summary": "trains on text", "measures": false, "leaves": "model", "inputs": [], "needs": {"corpus": true, "task": false},
     "seeds": ["init", "data"],
     "parameters": [{"name": "behave", "type": "text", "default": "succeed", "doc": "what happens"}],
     "metrics": [{"name": "loss", "unit": "nat", "better": -1, "axes": []}], "results": []},
    {"name": "train", "summary": "trains on nothing", "measures": false, "leaves": "model",
     "inputs": [{"name": "from", "accepts": "model", "required": false, "list": false}], "needs": {"corpus": false, "task": false}, "seeds": ["init", "data"],
     "parameters": [{"name": "behave", "type": "text", "default": "succeed", "doc": "what happens"},
                    {"name": "level", "type": "number", "default": 0.5, "doc": "of the accuracy measured later"},
                    {"name": "grows", "type": "bool", "default": false, "doc": "finds an expert of 1000 parameters when it runs"},
                    {"name": "seconds", "type": "number", "default": 0, "low": 0, "doc": "how long it takes"},
                    {"name": "budget", "type": "budget", "default": null, "doc": "how long"},
                    {"name": "continues", "type": "bool", "default": false, "doc": "goes on"},
                    {"name": "router", "type": "component", "kind": "router", "default": null, "doc": "who chooses"}],
     "metrics": [{"name": "loss", "unit": "nat", "better": -1, "axes": []},
                 {"name": "valid_fit", "unit": "", "better": 1, "axes": [], "doc": "best at level 0.6"}], "results": []},
    {"name": "evaluate", "summary": "measures", "measures": true, "leaves": "none",
     "inputs": [{"name": "from", "accepts": "model", "required": true, "list": false}], "needs": {"corpus": false, "task": false}, "seeds": [],
     "parameters": [{"name": "behave", "type": "text", "default": "succeed", "doc": "what happens"}],
     "metrics": [{"name": "accuracy", "unit": "share", "better": 1, "axes": []}], "results": []},
    {"name": "probe", "summary": "finds a number", "measures": true, "leaves": "none",
     "inputs": [{"name": "from", "accepts": "model", "required": true, "list": false}], "needs": {"corpus": false, "task": false}, "seeds": [],
     "parameters": [{"name": "behave", "type": "text", "default": "succeed", "doc": "what happens"},
                    {"name": "finds", "type": "number", "default": 0.5, "doc": "what it finds"},
                    {"name": "point", "type": "text", "default": "10%", "doc": "where it finds it"},
                    {"name": "at", "type": "texts", "default": null, "doc": "points of the training"}],
     "metrics": [{"name": "found", "unit": "", "better": 0, "axes": []}],
     "results": [{"name": "found", "unit": ""}, {"name": "point", "unit": ""}, {"name": "nothing", "unit": ""}]}
  ]})json";

int describe() {
  log_call("describe");
  if (const char* how = std::getenv("FAKE_DESCRIBE"); how != nullptr && std::strcmp(how, "crash") == 0) std::abort();
  std::fputs(kDescription, stdout);
  return 0;
}

json probe_file(const std::string& path) {
  json answer = {
      {"path", path}, {"size", 1}, {"mtime_ns", 1}, {"build_id", moiety::sha256(moiety::read_file(path).value_or(""))}};
  answer["plugin"] = {{"name", fs::path(path).stem().string()}, {"version", "1"}, {"summary", "fake"}};
  answer["components"] = json::array();
  const auto text = moiety::read_file(path);
  if (!text) return {{"path", path}, {"error", text.error().message}};
  bool known = false;
  for (const auto& line : moiety::split(*text, '\n')) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    known = known || word == "component";
    if (word == "crash") {
      std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would turn it into an exit code
      std::raise(SIGSEGV);
    }
    if (word == "hang") pause_for(60);
    if (word == "error") return {{"path", path}, {"error", line.substr(6)}};
    if (word != "component") continue;
    std::string kind, name, parameter;
    int version = 1;
    words >> kind >> name >> version >> parameter;
    json parameters = json::array();
    if (!parameter.empty())
      parameters.push_back({{"name", parameter}, {"type", "integer"}, {"default", 1}, {"low", 1}, {"doc", "a number"}});
    answer["components"].push_back({{"kind", kind},
                                    {"name", name},
                                    {"version", version},
                                    {"summary", "fake"},
                                    {"source", ""},
                                    {"parameters", parameters},
                                    {"outputs", json::array()}});
  }
  if (!known) return {{"path", path}, {"error", "no plugin for this worker"}};
  return answer;
}

int probe(const std::vector<std::string>& files) {
  log_call("probe " + std::to_string(files.size()));
  json all = {{"files", json::array()}};
  for (const auto& file : files) all["files"].push_back(probe_file(file));
  std::fputs(all.dump().c_str(), stdout);
  return 0;
}

/// 1000 a layer of a fresh model, and those of the model read; what a stage that grows adds is known when it has run.
struct Parameters {
  double total = 0;
  bool estimate = false;
};
Parameters parameters_of(const json& job, const std::map<std::string, Parameters>& planned, bool runs) {
  Parameters found;
  if (job["model"].is_object()) found.total = 1000 * job["model"].value("layers", 2.0);
  for (const auto& input : job["inputs"]) {
    const auto manifest = moiety::read_file(input["path"].get<std::string>() + "/manifest.json");
    if (manifest) {
      found.total += json::parse(*manifest)["cost"]["total_parameters"].get<double>();
    } else if (const auto known = planned.find(input["stage"]); known != planned.end()) {
      found.total += known->second.total;
      found.estimate = known->second.estimate;
    }
  }
  const bool grows = job["config"].value("grows", false);
  if (grows && runs) found.total += 1000;
  found.estimate = found.estimate || (grows && !runs);
  return found;
}

int check(const std::vector<std::string>& files) {
  log_call("check " + std::to_string(files.size()));
  std::map<std::string, Parameters> planned;
  for (const auto& file : files) {
    const json job = json::parse(*moiety::read_file(file));
    const Parameters parameters = planned[job["stage"]] = parameters_of(job, planned, false);
    json problems = json::array();
    if (job["config"].value("behave", "").rfind("refuse", 0) == 0)
      problems.push_back({{"path", "behave"}, {"message", "this combination is not possible"}});
    // A step costs as much as a thousandth of a training that does not say how long.
    const json budget = job["config"].value("budget", json::object());
    const double thousands = budget.value("unit", "") == "steps" ? budget["amount"].get<double>() / 1000 : 1;
    say({{"stage", job["stage"]},
         {"problems", problems},
         {"cost",
          {{"tokens", 1000 * thousands},
           {"flops", 1e9 * thousands},
           {"total_parameters", parameters.total},
           {"active_parameters", parameters.total / 2},
           {"estimate", parameters.estimate},
           {"memory", 1 << 20}}}});
  }
  return 0;
}

/// One stage.
class Stage {
 public:
  explicit Stage(json job) : job_(std::move(job)), work_(job_["work"]), artifact_(job_["artifact"]) { choose(); }

  int run() {
    log_call("run " + job_["name"].get<std::string>() + " " + std::to_string(seed()));
    std::fprintf(stderr, "stage %s begins, OMP_NUM_THREADS=%s\n", job_["name"].get<std::string>().c_str(),
                 std::getenv("OMP_NUM_THREADS"));
    if (behave_ == "fail") return end("failed", "it was told to fail", 1, "router/fake@1", "route");
    if (behave_ == "quiet") return 0;
    if (behave_ == "exit") std::exit(0);
    if (behave_ == "diverge") return end("diverged", "the loss is nan at step 2", 4);
    if (behave_ == "environment") return end("interrupted", "cannot write the checkpoint: the disk is full", 3);
    if (behave_ == "crash") {
      say({{"crash", {{"signal", SIGSEGV}, {"component", "router/crasher@1"}, {"function", "route"}}}});
      std::signal(SIGSEGV, SIG_DFL);
      std::raise(SIGSEGV);
    }
    if (behave_ == "hang") {
      for (double s = 0;; s += 0.1) {
        say({{"beat", {{"component", "router/sleeper@1"}, {"function", "route"}, {"seconds", s}}}});
        pause_for(0.1);
      }
    }
    if (behave_ == "memory") {
      say({{"beat", {{"component", "clusterer/greedy@1"}, {"function", "cluster"}, {"seconds", 0.1}}}});
      std::vector<char> much(std::size_t{200} << 20, 'x');
      pause_for(60);
      return much[5];
    }
    const int stopped = train();
    return stopped != 0 ? end("interrupted", "", 128 + stopped) : publish();
  }

 private:
  std::int64_t seed() const { return job_["seeds"].value("data", std::int64_t{0}); }

  void choose() {
    behave_ = job_["config"].value("behave", "succeed");
    if (const auto once = behave_.find("!once"); once != std::string::npos) {
      behave_.resize(once);
      const auto mark = work_ + "/happened";
      if (fs::exists(mark))
        behave_ = "succeed";
      else
        std::ofstream(mark) << "once\n";
    }
    if (const auto at = behave_.find('@'); at != std::string::npos) {
      if (std::to_string(seed()) != behave_.substr(at + 1))
        behave_ = "succeed";
      else
        behave_.resize(at);
    }
  }

  int end(const std::string& state, const std::string& error, int code, const std::string& component = "",
          const std::string& function = "") {
    say({{"end",
          {{"state", state},
           {"error", error},
           {"component", component},
           {"function", function},
           {"tokens", 1000},
           {"flops", 1e9},
           {"wall_seconds", 0.1},
           {"cpu_seconds", 0.1},
           {"peak_memory", 1 << 20}}}});
    return code;
  }

  /// Steps of 20 ms. 0, or the signal that stopped it after its checkpoint was written.
  int train() {
    for (const int signal : {SIGINT, SIGTERM})
      std::signal(
          signal, behave_ == "stubborn" ? SIG_IGN : [](int s) { asked_to_stop = s; });
    const double seconds = behave_ == "slow" || behave_ == "stubborn" ? 30 : job_["config"].value("seconds", 0.0);
    const int steps = std::max(1, static_cast<int>(seconds / 0.02));
    int step = 0;
    if (const auto text = moiety::read_file(work_ + "/checkpoint/step")) {
      step = std::stoi(*text);
      log_call("resumed at " + *text);
    }
    for (; step < steps; ++step) {
      say({{"progress",
            {{"unit", "tokens"},
             {"done", step * 100},
             {"total", steps * 100},
             {"loss", 5.0 - step * 0.001},
             {"phase", "train"}}}});
      if (seconds > 0) pause_for(0.02);
      if (asked_to_stop != 0 || step % 10 == 9) {
        fs::create_directories(work_ + "/checkpoint");
        if (!moiety::write_file(work_ + "/checkpoint/step", std::to_string(step + 1))) std::exit(3);
      }
      if (asked_to_stop != 0) return asked_to_stop;
    }
    return 0;
  }

  int publish() {
    std::vector<moiety::registry::MetricRow> rows;
    json manifest = {{"format", 1},          {"stage", job_["stage"]}, {"name", job_["name"]},
                     {"verb", job_["verb"]}, {"sites", json::array()}, {"results", json::object()}};
    manifest["cost"] = {{"tokens", 1000}, {"flops", 1e9}, {"wall_seconds", 0.1}, {"cpu_seconds", 0.1}, {"peak_memory", 1 << 20}};
    const double parameters = parameters_of(job_, {}, true).total;
    manifest["cost"]["total_parameters"] = parameters;
    manifest["cost"]["active_parameters"] = parameters / 2;
    double level = job_["config"].value("level", 0.0) + 0.01 * static_cast<double>(seed());
    if (job_["verb"] == "pretrain") manifest["results"] = {{"loss", 5.01}, {"unigram_loss", 6.42}};
    if (job_["verb"] == "probe") {
      // What it says, and how far the model is from that of seed 1.
      const json read = json::parse(*moiety::read_file(job_["inputs"][0]["path"].get<std::string>() + "/model.json"));
      const double found = job_["config"]["finds"].get<double>() + read["level"].get<double>() - 0.51;
      manifest["results"] = {{"found", found}, {"point", json::array({job_["config"]["point"]})}};
      rows.push_back({"found", {}, 0, found});
    } else if (job_["verb"] == "evaluate") {
      const json read = json::parse(*moiety::read_file(job_["inputs"][0]["path"].get<std::string>() + "/model.json"));
      level = read["level"];
      rows.push_back({"accuracy", {}, 0, level});
    } else {
      rows.push_back({"loss", {}, 1, 5.0});
      rows.push_back({"loss", {}, 2, 4.5});
      if (job_["verb"] == "train") rows.push_back({"valid_fit", {}, 2, 1 - std::abs(level - 0.6)});
    }
    if (behave_ == "no-artifact") return end("done", "", 0);
    if (job_["keep_optimizer"].get<bool>()) manifest["keeps_optimizer"] = true;
    const auto folder = work_ + "/artifact.new";
    fs::remove_all(folder);
    fs::create_directories(folder);
    std::string series;
    for (const auto& row : rows)
      series += json{{"name", row.name}, {"labels", row.labels}, {"step", row.step}, {"value", row.value}}.dump() + "\n";
    const auto model = json{{"level", level}}.dump();
    manifest["files"] = {{"model.json", {{"bytes", model.size()}, {"sha256", moiety::sha256(model)}}},
                         {"series.jsonl", {{"bytes", series.size()}, {"sha256", moiety::sha256(series)}}}};
    if (!keep_states(folder, model, manifest)) return end("interrupted", "cannot write the result", 3);
    auto registry = moiety::registry::Registry::open(job_["registry"], moiety::registry::OpenMode::existing);
    const bool good = registry && registry->write_metrics(job_["stage"], rows) &&
                      moiety::write_file(folder + "/series.jsonl", series) && moiety::write_file(folder + "/model.json", model) &&
                      moiety::write_file(folder + "/manifest.json", manifest.dump()) && moiety::publish_folder(folder, artifact_);
    if (!good) return end("interrupted", "cannot write the result", 3);
    fs::remove_all(work_ + "/checkpoint");
    log_call("end " + job_["name"].get<std::string>() + " " + std::to_string(seed()));
    return end("done", "", 0);
  }

  /// States on the way, as far as the job asks for them.
  bool keep_states(const std::string& folder, const std::string& model, const json& manifest) {
    for (const auto& point : job_["snapshots"]) {
      auto name = point.get<std::string>();
      if (name.back() == '%') name.replace(name.size() - 1, 1, "pct");
      std::replace(name.begin(), name.end(), ' ', '-');
      const auto at = folder + "/snapshots/" + name;
      fs::create_directories(at);
      json of_point = manifest;
      of_point.erase("files");
      if (!moiety::write_file(at + "/manifest.json", of_point.dump()) || !moiety::write_file(at + "/model.json", model))
        return false;
    }
    return true;
  }

  json job_;
  std::string work_, artifact_, behave_;
};

}  // namespace

int main(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "";
  const std::vector<std::string> rest(words + std::min(count, 2), words + count);
  if (what == "--describe") return describe();
  if (what == "--probe") return probe(rest);
  if (what == "--check") return check(rest);
  if (what == "--run" && rest.size() == 1) return Stage(json::parse(*moiety::read_file(rest[0]))).run();
  return 2;
}
