#include "kernel/engine/stages/training_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "kernel/base/text.h"
#include "kernel/engine/model/model_file.h"

namespace moiety::engine {
namespace {

/// Whether a name is what a pattern says, `*` standing for any text.
bool fits_pattern(std::string_view name, std::string_view pattern) {
  const auto star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  if (name.substr(0, star) != pattern.substr(0, star)) return false;
  for (std::size_t skipped = star; skipped <= name.size(); ++skipped)
    if (fits_pattern(name.substr(skipped), pattern.substr(star + 1))) return true;
  return false;
}

/// Each pattern must fit something that `possible` has.
Status expect_fits(const ParameterStore& store, const std::vector<std::string>& patterns, const ParameterStore::Which& possible,
                   const char* key, const char* what) {
  for (const std::string& pattern : patterns) {
    std::vector<std::string> names;
    bool fits = false;
    for (const auto& entry : store.entries()) {
      if (!possible(entry)) continue;
      names.push_back(entry.name);
      fits = fits || fits_pattern(entry.name, pattern);
    }
    if (fits) continue;
    constexpr std::size_t shown = 6;
    const bool more = names.size() > shown;
    names.resize(std::min(names.size(), shown));
    return fail(ErrorKind::usage, fmt::format("{}: no {} is called `{}`", key, what, pattern),
                fmt::format("there are {}{}", join(names, ", "), more ? ", …" : ""));
  }
  return {};
}

bool fits_any(const std::string& name, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& one) { return fits_pattern(name, one); });
}

}  // namespace

void check_training(const TrainingOptions& options, PlannedModel& model, ConfigProblems& problems) {
  model.body_trains = !options.train_head;
  const int ways = (options.train_all ? 1 : 0) + (options.train_head ? 1 : 0) + (options.train_only.empty() ? 0 : 1) +
                   (options.lora_rank > 0 ? 1 : 0);
  if (ways > 1) problems.push_back({"train", "says two things: all, head, only and lora exclude one another"});
  if (options.train_head && model.architecture.classes == 0 && model.architecture.read_out == ReadOut::tied)
    problems.push_back({"train", "the read-out is the table of tokens, which is no head of its own"});
  const auto belongs = [&](bool given, const char* key, const char* other) {
    if (given) problems.push_back({std::string("optimizer.") + key, std::string("belongs to ") + other});
  };
  belongs(options.is_adam() && options.momentum != sgd_defaults.momentum, "momentum", "sgd");
  belongs(!options.is_adam() && options.beta1 != adam_defaults.beta1, "beta1", "adamw");
  belongs(!options.is_adam() && options.beta2 != adam_defaults.beta2, "beta2", "adamw");
  belongs(!options.is_adam() && options.epsilon != adam_defaults.epsilon, "epsilon", "adamw");
}

Status choose_trained(const StageContext& context, const TrainingOptions& options, Gpt& model) {
  ParameterStore& store = model.parameters();
  const auto trains = [](const ParameterStore::Entry& entry) { return entry.spec.trains; };
  if (options.train_head) {
    store.train_only([](const ParameterStore::Entry& entry) { return is_read_out(entry.name); });
  } else if (!options.train_only.empty()) {
    if (auto status = expect_fits(store, options.train_only, trains, "train.only", "tensor that trains"); !status) return status;
    store.train_only([&](const ParameterStore::Entry& entry) { return fits_any(entry.name, options.train_only); });
  } else if (options.lora_rank > 0) {
    std::vector<std::string> matrices = options.lora_matrices;
    if (matrices.empty()) matrices = {"layer*.attention.*"};
    const auto is_matrix = [](const ParameterStore::Entry& entry) {
      const std::size_t sides = entry.spec.shape.size() - (entry.spec.per_expert ? 1 : 0);
      return entry.spec.trains && sides == 2 && !is_read_out(entry.name);
    };
    if (auto status = expect_fits(store, matrices, is_matrix, "train.lora.matrices", "matrix"); !status) return status;
    store.train_only([](const ParameterStore::Entry& entry) { return entry.name.rfind("head.", 0) == 0; },
                     [&](const ParameterStore::Entry& entry) { return is_matrix(entry) && fits_any(entry.name, matrices); },
                     {options.lora_rank, options.lora_alpha},
                     Random(static_cast<std::uint64_t>(context.job.seeds.init)).fork("lora"));
    // The model of the checkpoint was read before it had adapters.
    if (context.resumed) return load_tensors(model, context.resumed->model);
  }
  return {};
}

}  // namespace moiety::engine
