// The inputs of a model's attentions and feed-forwards over real text, recorded once, before any of them is changed.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_RECORDING_H_
#define MOIETY_KERNEL_ENGINE_STAGES_RECORDING_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "kernel/engine/data/corpus.h"
#include "kernel/engine/model/gpt.h"
#include "moiety/activations.h"

namespace moiety::engine {

class Recording {
 public:
  /// About `windows` training windows, the first ones of each domain in proportion to its size. `between` is asked after each
  /// batch whether to go on; stopped, it is incomplete.
  using Where = std::pair<Place, std::int64_t>;  ///< and the layer
  Recording(const Gpt& model, const TokenStreams& streams, const std::vector<Where>& places, std::int64_t windows,
            std::int64_t dimensions, const std::function<bool(std::int64_t done, std::int64_t all)>& between);

  bool complete() const { return complete_; }
  const Activations& of(Place place, std::int64_t layer) const { return places_.at({place, layer}); }
  /// Windows there are for `wanted`.
  std::int64_t windows() const { return windows_; }

 private:
  class Inputs final : public Activations {
   public:
    std::int64_t windows() const override { return inputs.size(0); }
    at::Tensor read(std::int64_t begin, std::int64_t end) const override { return inputs.narrow(0, begin, end - begin); }
    std::int64_t dimensions() const override { return projected; }
    at::Tensor inputs;  // [windows, context, d]
    std::int64_t projected = 0;
  };
  std::map<Where, Inputs> places_;
  std::int64_t windows_ = 0;
  bool complete_ = false;
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_RECORDING_H_
