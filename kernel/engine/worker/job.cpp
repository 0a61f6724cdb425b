#include "kernel/engine/worker/job.h"

#include "kernel/base/files.h"

namespace moiety::engine {
namespace {

std::vector<std::string> texts(const nlohmann::json& table, const char* key) {
  const auto found = table.find(key);
  return found == table.end() || found->is_null() ? std::vector<std::string>() : found->get<std::vector<std::string>>();
}

}  // namespace

Result<Job> Job::read(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return pass(text);
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  if (json.is_discarded()) return fail(ErrorKind::usage, path + " is not JSON");
  auto job = from_json(json);
  if (!job) return fail(job.error().kind, path + ": " + job.error().message);
  return job;
}

Result<Job> Job::from_json(const nlohmann::json& json) {
  Job job;
  try {
    job.stage = json.at("stage").get<std::string>();
    job.name = json.value("name", "");
    job.verb = json.at("verb").get<std::string>();
    const auto& seeds = json.at("seeds");
    job.seeds = {seeds.value("init", std::int64_t{0}), seeds.value("data", std::int64_t{0}),
                 seeds.value("noise", std::int64_t{0}), seeds.value("cluster", std::int64_t{0})};
    job.config = json.at("config");
    if (!job.config.is_object()) return fail(ErrorKind::usage, "`config` is not an object");
    job.model = json.contains("model") ? json["model"] : nlohmann::json();
    for (const auto& input : json.value("inputs", nlohmann::json::array()))
      job.inputs.push_back(
          {input.at("name").get<std::string>(), input.value("stage", ""), input.value("path", ""), input.value("snapshot", "")});
    const auto data = [&json](const char* what, std::string& path, std::string& hash) {
      if (!json.contains(what) || json[what].is_null()) return;
      path = json[what].at("path").get<std::string>();
      hash = json[what].value("hash", "");
    };
    data("corpus", job.corpus, job.corpus_hash);
    data("task", job.task, job.task_hash);
    if (!job.corpus.empty()) job.corpus_fraction = json["corpus"].value("fraction", 1.0);
    const auto groups = json.find("groups");
    if (groups != json.end() && groups->is_object())
      for (const auto& [name, group] : groups->items()) job.groups[name] = {texts(group, "of"), texts(group, "without")};
    job.snapshots = texts(json, "snapshots");
    job.keep_optimizer = json.value("keep_optimizer", false);
    for (const auto& c : json.value("components", nlohmann::json::array()))
      job.components.push_back({c.value("slot", ""), c.at("kind").get<std::string>(), c.at("name").get<std::string>(),
                                c.at("file").get<std::string>(), c.value("build_id", ""), c.value("version", 1)});
    job.registry = json.value("registry", "");
    job.work = json.value("work", "");
    job.artifact = json.value("artifact", "");
    job.attempt = json.value("attempt", std::int64_t{0});
    job.threads = json.value("threads", 1);
    job.checkpoint_seconds = json.value("checkpoint_seconds", 30.0);
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorKind::usage, std::string("not a job: ") + error.what());
  }
  if (!(job.corpus_fraction > 0 && job.corpus_fraction <= 1))
    return fail(ErrorKind::usage, "`corpus.fraction` must lie above 0 and at most at 1");
  if (job.threads < 1 || job.threads > 1024) return fail(ErrorKind::usage, "`threads` must lie in 1 … 1024");
  return job;
}

const JobInput* Job::input(const std::string& input_name) const {
  for (const auto& input : inputs)
    if (input.name == input_name) return &input;
  return nullptr;
}

std::vector<const JobInput*> Job::all_inputs(const std::string& input_name) const {
  std::vector<const JobInput*> all;
  for (const auto& input : inputs)
    if (input.name == input_name) all.push_back(&input);
  return all;
}

}  // namespace moiety::engine
