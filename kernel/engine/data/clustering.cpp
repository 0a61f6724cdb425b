#include "kernel/engine/data/clustering.h"

#include <sys/stat.h>

#include "kernel/base/files.h"
#include "kernel/engine/checkpoint/safetensors.h"

namespace moiety::engine {
namespace {

constexpr const char *facts_file = "clusters.json", *tensors_file = "clusters.safetensors";

}  // namespace

Clustering::Clustering(nlohmann::json facts, TensorMap tensors, std::int64_t context, std::vector<Part> parts)
    : facts_(std::move(facts)), tensors_(std::move(tensors)), context_(context), parts_(std::move(parts)) {
  place_parts();
}

void Clustering::place_parts() {
  count_ = tensors_.at("sizes").size(0);
  std::int64_t first = 0;
  for (const Part& part : parts_) {
    place_.emplace(part.domain, std::pair(first, part.windows));
    first += part.windows;
  }
  if (tensors_.at("labels").dim() != 1 || tensors_.at("labels").size(0) != first)
    throw std::invalid_argument("not one label for each window");
}

Result<Clustering> Clustering::open(const std::string& artifact) {
  const std::string path = artifact + "/" + facts_file;
  const auto text = read_file(path);
  if (!text) return fail(ErrorKind::failed, artifact + " holds no clustering");
  auto tensors = read_safetensors(artifact + "/" + tensors_file);
  if (!tensors) return pass(tensors);
  Clustering read;
  read.tensors_ = std::move(*tensors);
  try {
    read.facts_ = nlohmann::json::parse(*text);
    if (read.facts_.at("format").get<int>() != 1)
      return fail(ErrorKind::environment, path + " has a format this program does not know");
    read.context_ = read.facts_.at("context").get<std::int64_t>();
    for (const auto& part : read.facts_.at("parts"))
      read.parts_.push_back({part.at("domain").get<std::string>(), part.at("windows").get<std::int64_t>()});
    read.place_parts();
  } catch (const std::exception& error) {
    return fail(ErrorKind::environment, path + " is damaged: " + error.what(),
                "remove the folder " + artifact + ", then run the recipe again");
  }
  return read;
}

bool Clustering::is_in(const std::string& artifact) {
  struct stat status {};
  return ::stat((artifact + "/" + facts_file).c_str(), &status) == 0;
}

TensorMap Clustering::below(const std::string& prefix) const {
  TensorMap found;
  for (const auto& [name, tensor] : tensors_)
    if (name.compare(0, prefix.size(), prefix) == 0) found.emplace(name.substr(prefix.size()), tensor);
  return found;
}

std::optional<std::int64_t> Clustering::label(const std::string& domain, std::int64_t index) const {
  const auto found = place_.find(domain);
  if (found == place_.end() || index >= found->second.second) return std::nullopt;
  return tensor("labels").data_ptr<std::int64_t>()[found->second.first + index];
}

std::map<std::string, std::string> Clustering::files() const {
  nlohmann::json facts = facts_;
  facts["format"] = 1;
  facts["context"] = context_;
  facts["parts"] = nlohmann::json::array();
  for (const Part& part : parts_) facts["parts"].push_back({{"domain", part.domain}, {"windows", part.windows}});
  NamedTensors list(tensors_.begin(), tensors_.end());
  return {{facts_file, facts.dump(1)}, {tensors_file, safetensors_bytes(list)}};
}

}  // namespace moiety::engine
