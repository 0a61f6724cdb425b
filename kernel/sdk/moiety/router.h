// A router says, for each row, which experts run and with which weight. Padding and capacity belong to the site, not to routers.
#ifndef MOIETY_ROUTER_H_
#define MOIETY_ROUTER_H_

#include <string_view>
#include <utility>
#include <vector>

#include "moiety/activations.h"
#include "moiety/archive.h"
#include "moiety/component.h"
#include "moiety/plugin.h"
#include "moiety/random.h"
#include "moiety/weights.h"

namespace moiety {

struct RouterInput {
  at::Tensor hidden;  ///< [B, L, d], float: what enters the experts. For rows() = token all tokens may come as one sequence
  at::Tensor mask;    ///< [B, L] bool, false at padding; undefined: no padding
  at::Tensor domain, cluster;  ///< [B] int64, if needs() asks for them; then hidden has one row of B a sequence
  bool training = false;
  bool wants_losses = false;  ///< whether a loss of the router counts: without, none need be computed
  std::int64_t step = 0;
  Random random{0};  ///< the stream of this site, step and micro-batch
};

/// Who is routed: each token, or a sequence with all its tokens.
enum class Rows { token, sequence };

/// Four meanings of two tensors, R rows: B·L tokens, or B sequences:
///   experts [R, k] int64, weights [R, k]       top-k (−1: an empty place)
///   experts [R, k],       weights undefined    weight exactly 1: nothing is multiplied (avg-k)
///   experts undefined,    weights [R, N]       soft: all experts
///   both undefined                             plain sum
struct Routing {
  at::Tensor experts, weights;
  at::Tensor observed;  ///< [R, …], no gradient: comes back to after_step in training; may be undefined
  at::Tensor priority;  ///< [R]: under a capacity, who keeps a place first; undefined: in the order of the rows
  std::vector<std::pair<std::string_view, at::Tensor>> losses, metrics;  ///< declared name, 0-d tensor; losses unweighted
};

/// The experts of the site, read in place, full precision.
class Bank {
 public:
  virtual ~Bank() = default;
  virtual std::int64_t experts() const = 0;
  virtual bool has(std::string_view role) const = 0;
  /// The roles of a dense layer (roles.h) with a first dimension for the experts: `in` [N, s, d], `in_bias` [N, s], `out`
  /// [N, d, s], … A first dimension of 1 is shared by all experts: allowed for `out_bias` and `o_bias` (added once) and for keys
  /// and values with their biases.
  virtual at::Tensor weight(std::string_view role) const = 0;
  /// [N, s, d]: the rows of the first matrix of a feed-forward, the queries' of attention.
  virtual at::Tensor keys() const = 0;
};

/// What route() observed in the micro-batches of one step, in their order.
struct Observed {
  std::int64_t step = 0;
  at::Tensor experts;   ///< [ΣR, k] as chosen; undefined where none were named
  at::Tensor observed;  ///< [ΣR, …] as returned; undefined where nothing was
};

struct RouterCost {
  double experts_per_row = 0;  ///< experts a row runs
  double multiply_adds = 0;    ///< to route one row: a token or, by Router::rows(), a sequence
};

class Router : public Component {
 public:
  static constexpr const char* kind = "router";
  virtual RouterCost cost(const Site&) const = 0;
  virtual Rows rows() const { return Rows::token; }
  /// Whether the number of experts is its affair. find_experts() then says it, before anything is declared; at least 1.
  virtual bool finds_experts() const { return false; }
  virtual std::int64_t find_experts(const Site&, const Activations&, Random) { return 0; }
  /// Declares tensors and keeps the bank. Called once, and again after loading.
  virtual void bind(const Site&, Parameters&, const Bank&) = 0;
  /// Once, when the site is new: the bank holds its numbers. The activations are null unless needs() asks for them.
  virtual void prepare(const Activations*, Random) {}
  /// No state changes here: recomputation, probes and evaluation leave a router alone.
  virtual Routing route(const RouterInput&) const = 0;
  /// After each optimizer step; the only place where state moves.
  virtual void after_step(const Observed&) {}
};

}  // namespace moiety

#endif  // MOIETY_ROUTER_H_
