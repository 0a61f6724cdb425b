#include "kernel/host/run/dry_pass.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "kernel/base/files.h"
#include "kernel/base/hash.h"
#include "kernel/base/text.h"
#include "kernel/host/json_fields.h"
#include "kernel/host/run/process.h"

namespace moiety::host {
namespace {

using nlohmann::json;
constexpr double kDryPassSeconds = 300;

/// Stages by what they are apart from seeds: identity → the first stage of its kind.
class Kinds {
 public:
  explicit Kinds(const Plan& plan) {
    for (const auto& stage : plan.stages) {
      json kind = {{"verb", stage.verb->name}, {"config", stage.config},       {"model", stage.model},    {"task", stage.task},
                   {"groups", stage.groups},   {"snapshots", stage.snapshots}, {"threads", stage.threads}};
      if (kind["config"].is_object()) kind["config"].erase("seed");
      for (const auto& used : stage.components)
        kind["components"].push_back({used.slot, used.component->file, used.component->use()});
      for (const auto& input : stage.inputs) kind["inputs"].push_back({input.name, first(input.stage_id), input.snapshot});
      const auto hash = sha256(kind.dump(-1, ' ', false, json::error_handler_t::replace));
      firsts_[stage.id] = by_hash_.emplace(hash, stage.id).first->second;
    }
  }
  const std::string& first(const std::string& id) const {
    const auto found = firsts_.find(id);
    return found != firsts_.end() ? found->second : id;
  }

 private:
  std::map<std::string, std::string> by_hash_, firsts_;
};

/// Of an answer, or of the manifest of a stage that has run.
StageCost cost_of(const json& said) {
  const auto& cost = member_at(said, "cost");
  const auto amount = [&](const char* key) { return real_at(cost, key).value_or(0); };
  return {amount("tokens"),           amount("flops"),
          amount("total_parameters"), amount("active_parameters"),
          amount("memory"),           member_at(cost, "estimate") == true};
}

/// "feed_forward.router.k: is more than there are"
std::string problem_text(const json& problem) {
  const auto path = text_at(problem, "path");
  return (path.empty() ? "" : path + ": ") + text_at(problem, "message");
}

void add_problems(const json& answer, const PlannedStage& stage, std::vector<StageProblem>* problems) {
  const auto& told = member_at(answer, "problems");
  if (!told.is_array()) return;
  for (const auto& problem : told) {
    if (!problem.is_object()) continue;
    const StageProblem one{&stage, text_at(problem, "path"), text_at(problem, "message")};
    const bool known = std::any_of(problems->begin(), problems->end(), [&](const auto& other) {
      return std::tie(other.stage->name, other.path, other.message) == std::tie(stage.name, one.path, one.message);
    });
    if (!known) problems->push_back(one);
  }
}

}  // namespace

Result<DryPass> dry_pass(const JobContext& context, const std::string& worker, const std::vector<const PlannedStage*>& stages) {
  DryPass result;
  if (stages.empty()) return result;
  const Kinds kinds(context.plan);
  const auto folder = TemporaryFolder::make();
  if (!folder) return pass(folder);
  Command command;
  command.words = {worker, "--check"};
  command.environment = {{"OMP_NUM_THREADS", "1"}, {"OPENBLAS_NUM_THREADS", "1"}, {"OMP_WAIT_POLICY", "passive"}};
  command.stderr_to_pipe = true;
  std::vector<const PlannedStage*> asked;
  std::set<std::string> seen;
  for (const auto* stage : stages) {
    const auto& first = kinds.first(stage->id);
    if (!seen.insert(first).second) continue;
    const auto* of_plan = context.plan.stage(first);
    json job = make_check_job(context, *of_plan);
    for (auto& input : job["inputs"]) {
      // An input that is in the store is read from there; one that is not is described by its own job of this call.
      const auto id = input["stage"].get<std::string>();
      if (context.store.look_up(*context.plan.stage(id)).state == StoredStage::State::whole) continue;
      const auto& first_id = kinds.first(id);
      input["stage"] = first_id;
      input["path"] = input.contains("snapshot") ? context.store.snapshot(first_id, input["snapshot"].get<std::string>())
                                                 : context.store.artifact(first_id);
    }
    const auto path = **folder / (std::to_string(asked.size()) + ".json");
    if (auto status = write_file(path, job.dump(1, ' ', false, json::error_handler_t::replace)); !status) return pass(status);
    command.words.push_back(path);
    asked.push_back(of_plan);
  }

  const auto captured = capture(command, kDryPassSeconds);
  if (!captured) return pass(captured);
  result.interrupted = captured->interrupted;
  if (result.interrupted != 0) return result;
  std::vector<json> answers;
  for (const auto& line : split(captured->output, '\n')) {
    json parsed = json::parse(line, nullptr, false);
    if (parsed.is_object() && (parsed.contains("problems") || parsed.contains("cost"))) answers.push_back(std::move(parsed));
  }
  if (!captured->exit.ok() || captured->timed_out || answers.size() != asked.size()) {
    const auto words = printable(last_words(captured->errors, 400));
    return fail(
        ErrorKind::environment,
        "the dry pass failed: moiety-worker --check " +
            (captured->timed_out ? "gave no answer within " + duration(kDryPassSeconds) : "ended with " + captured->exit.text()) +
            (words.empty() ? "" : ": " + words),
        captured->exit.signal != 0 ? "a component crashed while it was made; `moiety plugins -v` lists them" : "");
  }
  std::map<std::string, StageCost> by_kind;
  std::map<std::string, std::string> why;
  std::set<std::string> broken;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    // What follows from a problem further up is not told as another one.
    const auto& inputs = asked[i]->inputs;
    const bool follows = std::any_of(inputs.begin(), inputs.end(),
                                     [&](const auto& input) { return broken.count(kinds.first(input.stage_id)) != 0; });
    const bool bad = answers[i].contains("problems") && !answers[i]["problems"].empty();
    if (!follows) add_problems(answers[i], *asked[i], &result.problems);
    if (follows || bad) broken.insert(asked[i]->id);
    if (bad && !follows) why[asked[i]->id] = problem_text(answers[i]["problems"].front());
    by_kind[asked[i]->id] = cost_of(answers[i]);
  }
  for (const auto* stage : stages) {
    StageCost& cost = result.costs[stage->id] = by_kind[kinds.first(stage->id)];
    // What could not be known before is known when the stage has run.
    if (const auto stored = cost.estimate ? context.store.look_up(stage->id) : StoredStage{};
        stored.state == StoredStage::State::whole) {
      const double memory = cost.memory;
      cost = cost_of(stored.manifest);
      cost.memory = memory;
    }
    if (const auto found = why.find(kinds.first(stage->id)); found != why.end()) result.refused[stage->id] = found->second;
  }
  return result;
}

}  // namespace moiety::host
