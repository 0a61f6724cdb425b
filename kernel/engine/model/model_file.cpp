#include "kernel/engine/model/model_file.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "kernel/base/files.h"
#include "kernel/base/hash.h"
#include "kernel/engine/checkpoint/state_archive.h"

namespace moiety::engine {
namespace {

tl::unexpected<Error> damaged(const std::string& artifact, const std::string& why) {
  return fail(ErrorKind::failed, "the model in " + artifact + " is damaged: " + why,
              "remove this folder, then run the recipe again: the stage is made anew");
}

Result<TensorMap> read_checked(const ModelFile& file, const char* name) {
  const auto bytes = read_file(file.path + "/" + name);
  if (!bytes) return damaged(file.path, std::string(name) + " cannot be read");
  const auto& files = file.manifest["files"];
  if (!files.contains(name) || files[name].value("sha256", "") != sha256(*bytes))
    return damaged(file.path, std::string(name) + " is not what was written");
  auto tensors = parse_safetensors(*bytes, file.path + "/" + name);
  if (!tensors) return damaged(file.path, tensors.error().message);
  return tensors;
}

}  // namespace

Result<nlohmann::json> read_manifest(const std::string& artifact) {
  const auto text = read_file(artifact + "/manifest.json");
  if (!text) return damaged(artifact, "manifest.json cannot be read");
  auto manifest = nlohmann::json::parse(*text, nullptr, false);
  if (!manifest.is_object() || manifest.value("format", 0) != 1)
    return damaged(artifact, "manifest.json is not one this program knows");
  if (!manifest.contains("files") || !manifest["files"].is_object()) return damaged(artifact, "manifest.json names no files");
  return manifest;
}

Result<TensorMap> read_site_state(const std::string& artifact, const nlohmann::json& manifest) {
  if (!manifest["files"].contains("state.safetensors")) return TensorMap();
  ModelFile file;
  file.path = artifact;
  file.manifest = manifest;
  return read_checked(file, "state.safetensors");
}

Result<ModelFile> read_model_file(const std::string& artifact) {
  ModelFile file;
  file.path = artifact;
  auto manifest = read_manifest(artifact);
  if (!manifest) return pass(manifest);
  file.manifest = std::move(*manifest);
  if (!file.manifest.contains("model") || !file.manifest["model"].is_object())
    return fail(ErrorKind::failed, "the stage in " + artifact + " left no model");
  auto architecture = Architecture::from_json(file.manifest["model"]);
  if (!architecture) return damaged(artifact, architecture.error().message);
  file.architecture = *architecture;
  auto tensors = read_checked(file, "model.safetensors");
  if (!tensors) return pass(tensors);
  file.tensors = std::move(*tensors);
  if (file.manifest["files"].contains("state.safetensors")) {
    auto state = read_checked(file, "state.safetensors");
    if (!state) return pass(state);
    file.state = std::move(*state);
  }
  return file;
}

nlohmann::json describe_sites(const Gpt& model) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& site : model.sites()) {
    const auto component = [](const Instance& instance) {
      return nlohmann::json{{"use", fmt::format("{}@{}", instance.entry->name, instance.entry->version)},
                            {"config", instance.config},
                            {"file", instance.library != nullptr ? instance.library->path : ""},
                            {"build_id", instance.library != nullptr ? instance.library->build_id : ""}};
    };
    list.push_back({{"layer", site->site().layer},
                    {"place", name_of(site->site().place)},
                    {"experts", site->site().experts},
                    {"neurons", site->bank().neurons()},
                    {"capacity", site->capacity()},
                    {"constructor", component(site->constructor())},
                    {"router", component(site->router())}});
  }
  return list;
}

NamedTensors tensors_of(const Gpt& model) {
  const at::NoGradGuard no_gradient;
  model.parameters().refresh();
  NamedTensors tensors;
  for (const auto& entry : model.parameters().entries())
    if (!entry.adapter) tensors.emplace_back(entry.name, *entry.tensor);
  return tensors;
}

NamedTensors trained_tensors_of(const Gpt& model) {
  NamedTensors tensors;
  for (const auto& entry : model.parameters().entries())
    tensors.emplace_back(entry.name, entry.base.defined() ? entry.base : *entry.tensor);
  return tensors;
}

NamedTensors state_of_sites(Gpt& model) {
  StateWriter writer;
  for (auto& site : model.sites()) {
    PrefixedArchive archive(writer, site_prefix(site->site().place, site->site().layer));
    site->state(archive);
  }
  return writer.tensors();
}

Result<Sites> make_sites(const nlohmann::json& manifest, const Architecture& architecture, const ComponentSet& components,
                         const TensorMap& state) {
  Sites sites;
  StateReader reader(state);
  for (const auto& described : manifest.value("sites", nlohmann::json::array())) {
    const auto layer = described.value("layer", std::int64_t{-1}), experts = described.value("experts", std::int64_t{0});
    const auto found = place_of(described.value("place", "feed_forward"));
    const Place place = found.value_or(Place::feed_forward);
    if (!found || layer < 0 || layer >= architecture.layers || experts < 1 || find_site(sites, place, layer) != nullptr ||
        !described.contains("constructor") || !described.contains("router"))
      return fail(ErrorKind::failed, "the manifest describes a site that cannot be");
    ConfigProblems problems;
    const std::string path = fmt::format("from.layer{}.{}", layer, name_of(place));
    const auto make = [&](const char* kind, const nlohmann::json& component, const std::string& slot) {
      nlohmann::json config = component.value("config", nlohmann::json::object());
      if (!config.is_object()) config = nlohmann::json::object();
      config["use"] = component.value("use", "");
      return components.make(kind, config, path + slot, problems);
    };
    auto constructor = make("expert_constructor", described["constructor"], ".experts");
    auto router = make("router", described["router"], ".router");
    if (!problems.empty()) return fail(ErrorKind::failed, problems.front().path + ": " + problems.front().message);
    Site site = site_of(architecture, place, layer);
    site.experts = experts;
    auto made = std::make_unique<ExpertSite>(site, std::move(*constructor), std::move(*router), described.value("capacity", 0.0));
    PrefixedArchive archive(reader, site_prefix(place, layer));
    made->state(archive);
    sites.push_back(std::move(made));
  }
  return sites;
}

Result<std::unique_ptr<Gpt>> model_from(const ModelFile& file, const ComponentSet& components) {
  auto sites = make_sites(file.manifest, file.architecture, components, file.state);
  if (!sites) return pass(sites);
  auto model = std::make_unique<Gpt>(file.architecture, std::move(*sites));
  if (auto status = load_tensors(*model, file.tensors); !status) return pass(status);
  return model;
}

Status load_tensors(Gpt& model, const TensorMap& tensors, const std::string& fresh, const std::string& ignored) {
  const at::NoGradGuard no_gradient;
  for (const auto& entry : model.parameters().entries()) {
    if (!fresh.empty() && entry.name.rfind(fresh, 0) == 0) continue;
    const auto found = tensors.find(entry.name);
    if (found == tensors.end()) return fail(ErrorKind::failed, "the stored model has no tensor " + entry.name);
    const at::Tensor& into = entry.base.defined() ? entry.base : *entry.tensor;
    if (found->second.sizes() != into.sizes())
      return fail(ErrorKind::failed, "the stored model's tensor " + entry.name + " has another shape");
    into.copy_(found->second);
  }
  model.parameters().refresh();
  for (const auto& [name, tensor] : tensors) {
    if (model.parameters().find(name) == nullptr && (ignored.empty() || name.rfind(ignored, 0) != 0))
      return fail(ErrorKind::failed, "the stored model has a tensor " + name + " that nothing uses");
  }
  return {};
}

}  // namespace moiety::engine
