#include "kernel/engine/stages/read_models.h"

#include <algorithm>

#include "kernel/base/files.h"
#include "kernel/engine/stages/cluster_labels.h"
#include "kernel/engine/stages/stage_model.h"

namespace moiety::engine {
namespace {

constexpr const char* domains_file = "domains.json";

/// The model's order of domains; empty where none was kept.
Result<std::vector<std::string>> kept_domains(const std::string& artifact) {
  const auto text = read_file(artifact + "/" + domains_file);
  if (!text) return std::vector<std::string>();
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  if (!json.is_array()) return fail(ErrorKind::environment, artifact + "/" + domains_file + " is damaged");
  return json.get<std::vector<std::string>>();
}

}  // namespace

Result<std::unique_ptr<Gpt>> model_of(const JobInput& input, const ComponentSet& components) {
  const auto file = read_model_file(input.path);
  if (!file) return pass(file);
  return model_from(*file, components);
}

std::map<std::string, std::string> domain_file(const std::vector<std::string>& names) {
  return {{domains_file, nlohmann::json(names).dump()}};
}

Result<std::map<std::string, std::string>> inherited_files(const std::string& artifact) {
  std::map<std::string, std::string> files;
  const auto domains = kept_domains(artifact);
  if (!domains) return pass(domains);
  if (!domains->empty()) files = domain_file(*domains);
  if (!Clustering::is_in(artifact)) return files;
  const auto clustering = Clustering::open(artifact);
  if (!clustering) return pass(clustering);
  files.merge(clustering->files());
  return files;
}

Status hand_on(const std::string& artifact, StageOutcome& outcome) {
  const auto manifest = read_manifest(artifact);
  if (!manifest) return pass(manifest);
  auto files = inherited_files(artifact);
  if (!files) return pass(files);
  for (auto& [name, content] : *files) outcome.files[name] = std::move(content);
  if (manifest->contains("position")) outcome.position = (*manifest)["position"];
  return {};
}

Result<WindowLabels> window_labels(const Gpt& model, const std::string& artifact, const ComponentSet& components,
                                   const LabelledText& text, bool own_numbers) {
  WindowLabels labels;
  if (!own_numbers && !artifact.empty()) {
    const auto order = kept_domains(artifact);
    if (!order) return pass(order);
    for (const auto& name : *text.names) {
      const auto found = std::find(order->begin(), order->end(), name);
      if (!order->empty()) labels.domain.push_back(found == order->end() ? -1 : found - order->begin());
    }
  }
  const bool wanted = std::any_of(model.sites().begin(), model.sites().end(), [](const auto& site) {
    return call("needs", site->router(), [&] { return site->router().component->needs().cluster_labels; });
  });
  if (!wanted) return labels;
  if (artifact.empty() || !Clustering::is_in(artifact))
    return fail(ErrorKind::failed, "a router of the model asks for clusters, but its artifact has no clustering");
  const auto clusters = ClusterLabels::open(artifact, components);
  if (!clusters) return pass(clusters);
  std::vector<std::int64_t> counts;
  for (std::int64_t d = 0; d < text.streams->domains(); ++d) counts.push_back(text.streams->windows(d, text.context));
  labels.cluster = (*clusters)->of(*text.streams, *text.domains, text.context, counts, text.training);
  return labels;
}

}  // namespace moiety::engine
