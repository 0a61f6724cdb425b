#include "kernel/engine/stages/continuation.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "kernel/base/files.h"
#include "kernel/base/hash.h"
#include "kernel/engine/model/dense_roles.h"
#include "kernel/engine/plugins/assign.h"
#include "kernel/engine/stages/site_making.h"

namespace moiety::engine {
namespace {

constexpr const char* moment_names[] = {"first", "second"};

/// Tensors whose names begin with `prefix`, without it.
TensorMap below(const TensorMap& tensors, const std::string& prefix) {
  TensorMap list;
  for (const auto& [name, tensor] : tensors)
    if (name.rfind(prefix, 0) == 0) list.emplace(name.substr(prefix.size()), tensor);
  return list;
}

}  // namespace

Moments::Moments(const Gpt& model)
    : first(at::zeros_like(model.parameters().flat_gradient())), second(at::zeros_like(model.parameters().flat_gradient())) {}

nlohmann::json ScheduleState::to_json() const {
  return {{"step", step}, {"steps", steps}, {"tokens_per_step", tokens_per_step}, {"beta2", beta2}, {"epsilon", epsilon}};
}

std::optional<ScheduleState> ScheduleState::from_json(const nlohmann::json& json) {
  if (!json.is_object()) return std::nullopt;
  ScheduleState state;
  state.step = json.value("step", std::int64_t{0});
  state.steps = json.value("steps", std::int64_t{0});
  state.tokens_per_step = json.value("tokens_per_step", 0.0);
  state.beta2 = json.value("beta2", 0.0);
  state.epsilon = json.value("epsilon", 0.0);
  if (state.step < 0 || state.steps < state.step) return std::nullopt;
  return state;
}

Result<std::int64_t> ScheduleState::step_of(const std::string& point) const {
  const auto refuse = [&](const std::string& why) {
    return fail(ErrorKind::usage, fmt::format("snapshot `{}`: {}", point, why));
  };
  double wanted = -1;
  if (!point.empty() && point.back() == '%') {
    const auto percent = size_of(point.substr(0, point.size() - 1));
    if (!percent || *percent < 0 || *percent > 100) return refuse("a point lies between 0% and 100%");
    wanted = std::nearbyint(*percent / 100 * static_cast<double>(steps));
  } else if (const auto space = point.find(' '); space != std::string::npos) {
    const auto amount = size_of(point.substr(0, space));
    const std::string unit = point.substr(space + 1);
    if (!amount || *amount < 0) return refuse("write a number with its unit");
    if (unit == "steps")
      wanted = *amount;
    else if (unit == "tokens" && tokens_per_step > 0)
      wanted = std::ceil(*amount / tokens_per_step - 1e-9);
    else
      return refuse(unit == "tokens" ? "this stage's tokens are not known beforehand" : "units are %, steps, tokens");
  } else {
    return refuse("write \"10%\", \"200 steps\" or \"400k tokens\"");
  }
  if (wanted > static_cast<double>(steps)) return refuse(fmt::format("the stage ends after {} steps", steps));
  return static_cast<std::int64_t>(wanted);
}

std::string training_bytes(const Gpt& model, const Moments& moments, const NamedTensors& state) {
  NamedTensors list;
  const at::Tensor* flat[] = {&moments.first, &moments.second};
  for (std::size_t i = 0; i < 2; ++i)
    for (const auto& entry : model.parameters().entries())
      if (entry.spec.trains)
        list.emplace_back(fmt::format("{}.{}", moment_names[i], entry.name),
                          flat[i]->narrow(0, entry.offset, entry.size()).view(entry.spec.shape).clone());
  for (const auto& [name, tensor] : state) list.emplace_back("state." + name, tensor);
  return safetensors_bytes(list);
}

Result<TrainingState> read_training_state(const ModelFile& file) {
  const auto schedule = ScheduleState::from_json(file.manifest.value("schedule", nlohmann::json()));
  const auto& files = file.manifest.value("files", nlohmann::json::object());
  if (!schedule || !files.contains(training_file))
    return fail(ErrorKind::failed, "the model read kept no state of an optimizer",
                "`continues` goes on from a pretrain stage, or from a construct stage that reads one");
  const std::string path = file.path + "/" + training_file;
  auto bytes = read_file(path);
  if (!bytes || files[training_file].value("sha256", "") != sha256(*bytes))
    return fail(ErrorKind::failed, path + " is damaged", "remove the folder " + file.path + ", then run the recipe again");
  auto tensors = parse_safetensors(*bytes, path);
  if (!tensors) return pass(tensors);
  TrainingState state;
  state.schedule = *schedule;
  state.state = below(*tensors, "state.");
  for (auto& [name, tensor] : *tensors)
    if (name.rfind("state.", 0) != 0) state.moments.emplace(name, tensor);
  return state;
}

Status load_moments(const Gpt& model, const TensorMap& by_name, Moments& moments) {
  const at::NoGradGuard no_gradient;
  at::Tensor* flat[] = {&moments.first, &moments.second};
  for (std::size_t i = 0; i < 2; ++i) {
    for (const auto& entry : model.parameters().entries()) {
      const auto found = by_name.find(fmt::format("{}.{}", moment_names[i], entry.name));
      if (!entry.spec.trains || found == by_name.end()) continue;
      if (found->second.sizes() != at::IntArrayRef(entry.spec.shape))
        return fail(ErrorKind::failed, "the moments kept of " + entry.name + " have another shape");
      flat[i]->narrow(0, entry.offset, entry.size()).copy_(found->second.reshape({-1}));
    }
  }
  return {};
}

at::Tensor preconditioner_of(const Moments& moments, const ScheduleState& schedule) {
  if (schedule.step < 1 || !schedule.of_adam()) return {};
  const double correction = 1 - std::pow(schedule.beta2, static_cast<double>(schedule.step));
  return ((moments.second / correction).sqrt() + schedule.epsilon).reciprocal();
}

Status pass_training_state_on(const ModelFile& file, const Gpt& model, const std::vector<const ExpertSite*>& fresh,
                              StageOutcome& outcome) {
  if (!file.manifest.value("files", nlohmann::json::object()).contains(training_file)) return {};
  auto kept = read_training_state(file);
  if (!kept) return pass(kept);
  TensorMap moments;
  for (const char* moment : moment_names) {
    const std::string prefix = std::string(moment) + ".";
    const TensorMap dense = below(kept->moments, prefix);
    for (const auto& entry : model.parameters().entries()) {
      const auto found = dense.find(name_in_model(entry.name));
      if (entry.spec.trains && found != dense.end() && found->second.sizes() == at::IntArrayRef(entry.spec.shape))
        moments[prefix + entry.name] = found->second;
    }
    for (const ExpertSite* site : fresh) {
      const auto& constructor = site->constructor().as<ExpertConstructor>();
      TensorMap target;
      for (const auto& entry : model.parameters().entries()) {
        const bool own = is_of_experts(entry.name, site->site().place, site->site().layer);
        if (!entry.spec.trains || (!own && entry.name.rfind("all_sites.", 0) != 0)) continue;
        target.emplace(entry.name, at::zeros(entry.spec.shape));
        moments.erase(prefix + entry.name);
      }
      if (call("keeps_moments", site->constructor(), [&] { return constructor.keeps_moments(); })) {
        const Sources sources{dense_roles(dense, site->site().place, site->site().layer)};
        fill_site(*site, call("expand", site->constructor(), [&] { return constructor.expand(sources, site->site()); }), target);
      }
      for (const auto& [name, tensor] : target) moments[prefix + name] = tensor;
    }
  }
  NamedTensors list;
  for (const auto& [name, tensor] : moments) list.emplace_back(name, tensor);
  for (const auto& [name, tensor] : kept->state) list.emplace_back("state." + name, tensor);
  outcome.files[training_file] = safetensors_bytes(list);
  outcome.schedule = kept->schedule.to_json();
  return {};
}

}  // namespace moiety::engine
