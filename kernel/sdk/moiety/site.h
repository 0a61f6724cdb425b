// Facts a component is told before any tensor exists: where its experts sit and how much data there is. Torch-free.
#ifndef MOIETY_SITE_H_
#define MOIETY_SITE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace moiety {

/// `whole`: the entire model is the expert, a copy for each; it has no roles, and its router sees labels of sequences alone.
enum class Place { feed_forward, attention, whole };

/// What a neuron makes of what enters it: GELU (tanh form), ReLU, or SiLU(in x) · (up x), which is gated.
enum class Activation { gelu, relu, swiglu };
/// Its words, as MOIETY_CHOICE (params.h) has them.
constexpr const char* choice_words(Activation) { return "gelu, relu, swiglu"; }

/// A place in the transformer that can hold experts.
struct Site {
  Place place = Place::feed_forward;
  std::int64_t layer = 0, layers = 0;  ///< from 0; of how many
  std::int64_t width = 0;              ///< d: of the residual stream
  std::int64_t inner = 0;              ///< F: neurons of the dense feed-forward
  std::int64_t heads = 0;              ///< h: of attention, each d / h wide
  std::int64_t kv_heads = 0;           ///< heads of keys and values, which divide h; 0: as many as h
  bool rotary = false;                 ///< positions turn queries and keys (Su et al., RoFormer, 2021)
  Activation activation = Activation::gelu;
  bool biases = true;        ///< whether the dense layers have them
  std::int64_t experts = 0;  ///< N; 0 while it is not known

  bool gated() const { return activation == Activation::swiglu; }
  /// Rows of the matrices of keys and of values.
  std::int64_t kv_width() const { return kv_heads > 0 ? width / heads * kv_heads : width; }
};

/// What is known when a plan is made; 0 or empty: not known yet.
struct Facts {
  const Site* site = nullptr;
  std::int64_t sources = 0;  ///< models a constructor reads
  std::vector<std::string> domains;
  std::vector<std::int64_t> domain_windows;  ///< training windows of each domain
  std::int64_t run_windows = 0;              ///< windows the stage will train on
  std::int64_t window_tokens = 0;            ///< of each of them
  std::int64_t clusters = 0;                 ///< of the clustering that the stage reads
};

/// Why a combination cannot be; all are reported, none is thrown.
class Problems {
 public:
  /// `parameter`: the path below the component it concerns ("k"), or empty.
  void add(std::string parameter, std::string message) { list_.push_back({std::move(parameter), std::move(message)}); }
  struct Problem {
    std::string parameter, message;
  };
  const std::vector<Problem>& list() const { return list_; }

 private:
  std::vector<Problem> list_;
};

}  // namespace moiety

#endif  // MOIETY_SITE_H_
