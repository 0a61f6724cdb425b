// What a stage `cluster` leaves: groups of windows of the corpus, and what is needed to label other windows.
#ifndef MOIETY_KERNEL_ENGINE_DATA_CLUSTERING_H_
#define MOIETY_KERNEL_ENGINE_DATA_CLUSTERING_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernel/base/result.h"
#include "moiety/weights.h"

namespace moiety::engine {

/// clusters.json says how it was made, clusters.safetensors holds
///   labels [windows] int64, −1: none      centres [count, d], radii [count], sizes [count]
///   idf, right (features tf-idf), model.NAME and state.NAME (features states)
class Clustering {
 public:
  /// Windows that were divided: the first ones of a domain's training text.
  struct Part {
    std::string domain;
    std::int64_t windows = 0;
  };

  /// `facts`: {"features": {"use", …}, "clusterer": …, "model", "sites"}; the rest is added.
  Clustering(nlohmann::json facts, TensorMap tensors, std::int64_t context, std::vector<Part> parts);
  static Result<Clustering> open(const std::string& artifact);
  /// Whether an artifact holds one: its own, or that of the routers of its model.
  static bool is_in(const std::string& artifact);

  std::int64_t count() const { return count_; }
  std::int64_t context() const { return context_; }  ///< tokens of a window
  const nlohmann::json& facts() const { return facts_; }
  /// Throws std::out_of_range when there is none of this name.
  const at::Tensor& tensor(const std::string& name) const { return tensors_.at(name); }
  TensorMap below(const std::string& prefix) const;  ///< tensors by the rest of their names
  /// Of window `index` of a domain's training text; nothing when it was not among those divided.
  std::optional<std::int64_t> label(const std::string& domain, std::int64_t index) const;

  /// The two files, by name, for an artifact: of the stage itself, and of every model whose routers ask for it.
  std::map<std::string, std::string> files() const;

 private:
  Clustering() = default;
  void place_parts();
  nlohmann::json facts_;
  TensorMap tensors_;
  std::int64_t context_ = 0, count_ = 0;
  std::vector<Part> parts_;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> place_;  // domain → first label, windows
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_DATA_CLUSTERING_H_
