// The shape of a model: what [model] declares, and what follows from the data.
#ifndef MOIETY_KERNEL_ENGINE_MODEL_ARCHITECTURE_H_
#define MOIETY_KERNEL_ENGINE_MODEL_ARCHITECTURE_H_

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "kernel/base/result.h"
#include "moiety/params.h"

namespace moiety::engine {

MOIETY_CHOICE(Family, gpt);

struct ModelOptions {
  Family family;
  std::int64_t layers, width, heads, context;
  std::optional<std::int64_t> inner;
};

inline constexpr Parameter model_parameters[] = {
    param<&ModelOptions::family>("family", Family::gpt,
                                 "causal transformer with learned positions and LayerNorm before each block"),
    param<&ModelOptions::layers>("layers", 4, "transformer blocks").range(1, 1000).in("layers"),
    param<&ModelOptions::width>("width", 128, "numbers in the residual stream").range(1, 100000).in("numbers"),
    param<&ModelOptions::heads>("heads", 4, "attention heads; they divide the width").range(1, 1000).in("heads"),
    param<&ModelOptions::context>("context", 128, "longest sequence").range(1, 1000000).in("tokens"),
    optional<&ModelOptions::inner>("inner", "neurons of a feed-forward; 4 × width when left out")
        .range(1, 1000000)
        .in("neurons")};

struct Architecture {
  std::string family = "gpt";
  std::int64_t layers = 4, width = 128, heads = 4, context = 128, inner = 512, vocabulary = 0;
  std::int64_t classes = 0;      ///< of a classification head; 0: none
  std::int64_t item_tokens = 0;  ///< of an item to classify, its first ones are read; 0: as many as the context holds

  std::int64_t longest_item() const { return item_tokens > 0 ? std::min(item_tokens, context) : context; }

  nlohmann::json to_json() const;
  static Result<Architecture> from_json(const nlohmann::json& json);
  /// What cannot be ("heads do not divide the width"), or nothing.
  std::string problem() const;
};

/// The architecture of a fresh model; `vocabulary` comes from the data.
Result<Architecture> architecture_of(const ModelOptions& options, std::int64_t vocabulary);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_MODEL_ARCHITECTURE_H_
