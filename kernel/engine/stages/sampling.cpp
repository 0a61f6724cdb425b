#include "kernel/engine/stages/sampling.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "kernel/engine/stages/cluster_labels.h"
#include "kernel/engine/stages/selection.h"

namespace moiety::engine {
namespace {

/// The clustering that a parameter of the component names.
const JobInput* clustering_input(const Job& job, const Instance& instance) {
  for (std::size_t i = 0; i < instance.entry->parameter_count; ++i) {
    const Parameter& parameter = instance.entry->parameters[i];
    if (parameter.type != ParameterType::input || std::string(parameter.accepts) != "clustering") continue;
    if (const JobInput* input = job.input(instance.slot + "." + parameter.name)) return input;
  }
  return nullptr;
}

struct Target {
  DataSelection target;
};
constexpr Parameter target_parameter[] = {optional<&Target::target>("target", "windows aimed at")};

/// The component's parameter `target`, where it is a selection of data and given.
std::optional<DataSelection> target_of(const Instance& instance, ConfigProblems& problems) {
  for (std::size_t i = 0; i < instance.entry->parameter_count; ++i) {
    const Parameter& parameter = instance.entry->parameters[i];
    if (parameter.type != ParameterType::data || std::string(parameter.name) != "target") continue;
    const Target read = read_options<Target>(target_parameter, instance.config, instance.slot, nullptr, problems);
    if (read.target.given) return read.target;
  }
  return std::nullopt;
}

}  // namespace

Status start_sampler(const StageContext& context, const TrainingCorpus& corpus, const Instance& sampler, WindowPool& pool,
                     std::int64_t run_windows, const Random& random) {
  ConfigProblems problems;
  const auto wanted = target_of(sampler, problems);
  std::optional<WindowPool> target;
  const auto& domains = corpus.facts().domains;
  if (wanted) {
    const auto selection = select_domains(*wanted, domains, context.job);
    if (!selection) return pass(selection);
    target.emplace(selected(*selection, corpus.streams(TrainingSplit::train), pool.context), pool.context);
    if (target->table.windows() == 0) return fail(ErrorKind::failed, sampler.slot + ".target: there is no window");
  }
  if (const JobInput* input = clustering_input(context.job, sampler)) {
    const auto clusters = ClusterLabels::open(input->path, context.components);
    if (!clusters) return pass(clusters);
    const std::int64_t count = (*clusters)->clustering().count();
    pool.set_clusters((*clusters)->of(pool.streams, domains, pool.context, pool.table.count, true), count);
    if (target) target->set_clusters((*clusters)->of(target->streams, domains, pool.context, target->table.count, true), count);
  }
  auto& component = sampler.as<Sampler>();
  call("start", sampler, [&] { component.start(pool.table, target ? &target->table : nullptr, random); });
  Problems cannot;
  call("check_budget", sampler, [&] { component.check_budget(run_windows, cannot); });
  if (cannot.list().empty()) return {};
  const auto& first = cannot.list().front();
  return fail(ErrorKind::failed,
              fmt::format("{}{}{}: {}", sampler.slot, first.parameter.empty() ? "" : ".", first.parameter, first.message));
}

void check_sampler(const CheckContext& context, const CorpusFacts* corpus, const Instance& sampler, const Instance& mixing,
                   Facts facts, ConfigProblems& problems) {
  const JobInput* input = clustering_input(context.job, sampler);
  if (call("needs", sampler, [&] { return sampler.component->needs().cluster_labels; }) && input == nullptr)
    problems.push_back({sampler.slot, std::string(sampler.name) + " asks for clusters, but no clustering is named"});
  if (input != nullptr && Clustering::is_in(input->path)) {
    const auto clustering = Clustering::open(input->path);
    if (clustering)
      facts.clusters = clustering->count();
    else
      problems.push_back({sampler.slot, clustering.error().message});
  }
  if (const auto wanted = target_of(sampler, problems); wanted && corpus != nullptr) {
    const auto selection = select_domains(*wanted, corpus->domains, context.job);
    if (!selection) problems.push_back({sampler.slot + ".target", selection.error().message});
  }
  if (call("across_domains", sampler, [&] { return sampler.as<Sampler>().across_domains(); }) &&
      std::string(mixing.entry->name) != "proportional")
    problems.push_back(
        {mixing.slot, fmt::format("{} chooses among the windows of all domains: no mixing has a say in that", sampler.name)});
  check_all(sampler, facts, sampler.slot, problems);
}

}  // namespace moiety::engine
