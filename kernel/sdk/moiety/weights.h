// Trained tensors: the engine owns them, a component declares them and holds a handle. One ordered registry then serves
// optimizer, checkpoint and counting, and no plugin knows of them.
#ifndef MOIETY_WEIGHTS_H_
#define MOIETY_WEIGHTS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace moiety {

/// A tensor to be declared: name, shape, how it starts and how it trains.
struct Spec {
  std::string name;
  std::vector<std::int64_t> shape;
  double deviation = 0, constant = 0;  ///< initial values: normal(0, deviation) + constant
  bool decays = true;                  ///< weight decay applies
  bool trains = true;
  bool per_expert = false;  ///< the first dimension counts experts: only routed ones are active
  bool shared = false;      ///< one tensor for all sites of the model that declare this name

  Spec normal(double sd) && {
    deviation = sd;
    return std::move(*this);
  }
  Spec filled(double value) && {
    constant = value;
    return std::move(*this);
  }
  Spec without_decay() && {
    decays = false;
    return std::move(*this);
  }
  /// Not trained: kept in checkpoints, moved only by the component's after_step.
  Spec fixed() && {
    trains = false;
    return std::move(*this);
  }
  Spec of_experts() && {
    per_expert = true;
    return std::move(*this);
  }
  Spec for_all_sites() && {
    shared = true;
    return std::move(*this);
  }
};
inline Spec spec(std::string name, std::vector<std::int64_t> shape) {
  Spec s;
  s.name = std::move(name);
  s.shape = std::move(shape);
  return s;
}

/// Handle to a declared tensor: `*w` is the tensor to compute with now.
class Weight {
 public:
  Weight() = default;
  explicit Weight(std::shared_ptr<at::Tensor> current) : current_(std::move(current)) {}
  const at::Tensor& operator*() const { return *current_; }
  const at::Tensor* operator->() const { return current_.get(); }
  explicit operator bool() const { return current_ != nullptr; }  ///< whether one was declared

 private:
  std::shared_ptr<at::Tensor> current_;
};

/// Where a component declares its tensors. When a plan is made a registry that only counts stands here.
class Parameters {
 public:
  virtual ~Parameters() = default;
  virtual Weight add(Spec spec) = 0;
};

using TensorMap = std::map<std::string, at::Tensor>;

}  // namespace moiety

#endif  // MOIETY_WEIGHTS_H_
