// What entered a site of the dense model, recorded before anything was changed: for components that look at data first.
#ifndef MOIETY_ACTIVATIONS_H_
#define MOIETY_ACTIVATIONS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace moiety {

class Activations {
 public:
  virtual ~Activations() = default;
  virtual std::int64_t windows() const = 0;
  /// [end − begin, L, d] float: the inputs of these windows, which may be read as often as wanted.
  virtual at::Tensor read(std::int64_t begin, std::int64_t end) const = 0;
  /// To how many dimensions points made of them shall be projected (`calibrate.dimensions`); 0: not at all.
  virtual std::int64_t dimensions() const = 0;
};

}  // namespace moiety

#endif  // MOIETY_ACTIVATIONS_H_
