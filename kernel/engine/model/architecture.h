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
#include "moiety/site.h"

namespace moiety::engine {

MOIETY_CHOICE(Family, gpt);
MOIETY_CHOICE(Position, learned, rotary);
MOIETY_CHOICE(BlockForm, sequential, parallel);
MOIETY_CHOICE(NormKind, layer, rms);
MOIETY_CHOICE(ReadOut, tied, untied);

struct ModelOptions {
  Family family;
  std::int64_t layers, width, heads, context;
  std::optional<std::int64_t> feed_forward_width, kv_heads;
  Activation activation;
  Position position;
  BlockForm block;
  NormKind norm;
  ReadOut read_out;
  bool biases;
};

inline constexpr Parameter model_parameters[] = {
    param<&ModelOptions::family>("family", Family::gpt,
                                 "causal transformer, a norm before each part (Radford et al., GPT-2, 2019)"),
    param<&ModelOptions::layers>("layers", 4, "transformer blocks").range(1, 1000).in("layers"),
    param<&ModelOptions::width>("width", 128, "numbers in the residual stream").range(1, 100000).in("numbers"),
    param<&ModelOptions::heads>("heads", 4, "attention heads; they divide the width").range(1, 1000).in("heads"),
    optional<&ModelOptions::kv_heads>("kv_heads",
                                      "heads of keys and values, which divide `heads` (Ainslie et al., GQA, 2023); as "
                                      "many when left out")
        .range(1, 1000)
        .in("heads"),
    param<&ModelOptions::context>("context", 128, "longest sequence").range(1, 1000000).in("tokens"),
    optional<&ModelOptions::feed_forward_width>("feed_forward_width", "neurons of a feed-forward; 4 × width when left out")
        .range(1, 1000000)
        .in("neurons"),
    param<&ModelOptions::activation>("activation", Activation::gelu,
                                     "of a neuron: GELU (tanh form), ReLU, or SwiGLU, which has a second matrix (Shazeer, 2020)"),
    param<&ModelOptions::position>(
        "position", Position::learned,
        "a learned vector for each position, or rotary: queries and keys are turned (Su et al., 2021)"),
    param<&ModelOptions::block>(
        "block", BlockForm::sequential,
        "attention, then feed-forward; or both of one norm, side by side (Wang and Komatsuzaki, GPT-J, 2021)"),
    param<&ModelOptions::norm>("norm", NormKind::layer, "LayerNorm, or RMSNorm (Zhang and Sennrich, 2019)"),
    param<&ModelOptions::read_out>("read_out", ReadOut::tied, "the table of tokens again, or a matrix of its own"),
    param<&ModelOptions::biases>("biases", true, "whether matrices and norms have them")};

struct Architecture {
  std::string family = "gpt";
  std::int64_t layers = 4, width = 128, heads = 4, context = 128, inner = 512, vocabulary = 0;
  std::int64_t kv_heads = 0;  ///< 0: as many as heads
  Activation activation = Activation::gelu;
  Position position = Position::learned;
  BlockForm block = BlockForm::sequential;
  NormKind norm = NormKind::layer;
  ReadOut read_out = ReadOut::tied;
  bool biases = true;
  std::int64_t classes = 0;      ///< of a classification head; 0: none
  std::int64_t item_tokens = 0;  ///< of an item to classify, its first ones are read; 0: as many as the context holds

  std::int64_t longest_item() const { return item_tokens > 0 ? std::min(item_tokens, context) : context; }

  nlohmann::json to_json() const;
  static Result<Architecture> from_json(const nlohmann::json& json);
  /// What cannot be ("heads do not divide the width"), or nothing.
  std::string problem() const;
};

/// A place of a model, its number of experts not said.
Site site_of(const Architecture& architecture, Place place, std::int64_t layer);

/// The architecture of a fresh model; `vocabulary` comes from the data.
Result<Architecture> architecture_of(const ModelOptions& options, std::int64_t vocabulary);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_MODEL_ARCHITECTURE_H_
