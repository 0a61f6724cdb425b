// One expert of every site, as a dense model of the same shape.
#ifndef MOIETY_KERNEL_ENGINE_MODEL_DENSE_EXPERT_H_
#define MOIETY_KERNEL_ENGINE_MODEL_DENSE_EXPERT_H_

#include <memory>

#include "kernel/base/result.h"
#include "kernel/engine/model/gpt.h"

namespace moiety::engine {

/// A model whose attentions and feed-forwards are those of expert number `expert` of each site, derived roles computed once: to
/// its rows it gives what the model gives to rows that run this expert with weight 1. The experts of all feed-forwards must be
/// of one size, and of the dense layers' where a layer has no experts.
Result<std::unique_ptr<Gpt>> dense_expert(const Gpt& model, std::int64_t expert);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_MODEL_DENSE_EXPERT_H_
