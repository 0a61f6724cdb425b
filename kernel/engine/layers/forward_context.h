// What a forward pass must know beside its input.
#ifndef MOIETY_KERNEL_ENGINE_LAYERS_FORWARD_CONTEXT_H_
#define MOIETY_KERNEL_ENGINE_LAYERS_FORWARD_CONTEXT_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "moiety/random.h"
#include "moiety/site.h"

namespace moiety::engine {

struct ForwardContext {
  bool training = false;
  std::int64_t step = 0;
  Random random{0};                              ///< the stream of this step and micro-batch; every place forks its own
  double dropout = 0, unit_dropout = 0;          ///< of what leaves a part of a block; of a dense feed-forward's neurons
  std::vector<at::Tensor> losses;                ///< weighted auxiliary losses met on the way, 0-d
  at::Tensor sequence_domain, sequence_cluster;  ///< [B] int64 of the sequences computed; undefined: not known
  at::Tensor expert_of_row;                      ///< told by a model of whole models: of the rows that it gave, int64
  bool twice = false;                            ///< the plain forms, which can be differentiated twice
  /// Told what enters each attention and feed-forward: [rows, width]. Empty: nobody listens.
  std::function<void(Place place, std::int64_t layer, const at::Tensor& input)> watch;
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_LAYERS_FORWARD_CONTEXT_H_
