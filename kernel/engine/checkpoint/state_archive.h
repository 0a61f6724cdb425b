// What components remember, as named tensors: every value comes back bit for bit.
#ifndef MOIETY_KERNEL_ENGINE_CHECKPOINT_STATE_ARCHIVE_H_
#define MOIETY_KERNEL_ENGINE_CHECKPOINT_STATE_ARCHIVE_H_

#include <string>
#include <utility>

#include "kernel/engine/checkpoint/safetensors.h"
#include "moiety/archive.h"

namespace moiety::engine {

class StateWriter final : public Archive {
 public:
  bool reading() const override { return false; }
  void operator()(std::string_view name, at::Tensor& value) override;  ///< an undefined tensor is left out
  void operator()(std::string_view name, std::int64_t& value) override;
  void operator()(std::string_view name, double& value) override;
  void operator()(std::string_view name, std::vector<std::int64_t>& value) override;
  void operator()(std::string_view name, std::vector<double>& value) override;
  const NamedTensors& tensors() const { return tensors_; }

 private:
  NamedTensors tensors_;
};

/// Throws std::runtime_error when something is missing or of another type. A tensor that is missing was undefined.
class StateReader final : public Archive {
 public:
  explicit StateReader(TensorMap tensors) : tensors_(std::move(tensors)) {}
  bool reading() const override { return true; }
  void operator()(std::string_view name, at::Tensor& value) override;
  void operator()(std::string_view name, std::int64_t& value) override;
  void operator()(std::string_view name, double& value) override;
  void operator()(std::string_view name, std::vector<std::int64_t>& value) override;
  void operator()(std::string_view name, std::vector<double>& value) override;

 private:
  at::Tensor list(std::string_view name, at::ScalarType type) const;
  TensorMap tensors_;
};

/// A part of an archive: a prefix stands before each name.
class PrefixedArchive final : public Archive {
 public:
  PrefixedArchive(Archive& inner, std::string prefix) : inner_(inner), prefix_(std::move(prefix)) {}
  bool reading() const override { return inner_.reading(); }
  void operator()(std::string_view name, at::Tensor& value) override { inner_(prefix_ + std::string(name), value); }
  void operator()(std::string_view name, std::int64_t& value) override { inner_(prefix_ + std::string(name), value); }
  void operator()(std::string_view name, double& value) override { inner_(prefix_ + std::string(name), value); }
  void operator()(std::string_view name, std::vector<std::int64_t>& value) override {
    inner_(prefix_ + std::string(name), value);
  }
  void operator()(std::string_view name, std::vector<double>& value) override { inner_(prefix_ + std::string(name), value); }

 private:
  Archive& inner_;
  std::string prefix_;
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_CHECKPOINT_STATE_ARCHIVE_H_
