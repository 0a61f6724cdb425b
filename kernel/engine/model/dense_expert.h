// Dense models made of what a model with experts holds.
#ifndef MOIETY_KERNEL_ENGINE_MODEL_DENSE_EXPERT_H_
#define MOIETY_KERNEL_ENGINE_MODEL_DENSE_EXPERT_H_

#include <memory>

#include "kernel/base/result.h"
#include "kernel/engine/model/gpt.h"

namespace moiety::engine {

inline constexpr const char* no_experts = "the model read has no experts";
inline constexpr const char* whole_models =
    "the model read is several whole models, which no layer of one can stand for: extract one";

/// The model that is left when every site is its expert of this number. An error: there is none of that number, or feed-forwards
/// would be of different sizes.
Result<std::unique_ptr<Gpt>> dense_expert(const Gpt& model, std::int64_t expert);

/// The model whose layers compute what all experts of each site together compute, each with weight 1, as their constructors put
/// them back. An error: a constructor knows no way back.
Result<std::unique_ptr<Gpt>> recomposed(const Gpt& model);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_MODEL_DENSE_EXPERT_H_
