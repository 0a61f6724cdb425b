// The tensors of a site by role, stored or derived: what routers read, and what the site computes with.
#ifndef MOIETY_KERNEL_ENGINE_LAYERS_ROLE_BANK_H_
#define MOIETY_KERNEL_ENGINE_LAYERS_ROLE_BANK_H_

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/engine/layers/parameters.h"
#include "kernel/engine/plugins/component_set.h"
#include "moiety/expert_constructor.h"
#include "moiety/router.h"

namespace moiety::engine {

/// Roles of a place, with whether their first dimension may be 1 (shared by all experts).
struct RoleRule {
  std::string role;
  std::vector<std::int64_t> shape;  ///< of one expert; −1: its number of neurons
  bool required, may_be_shared;
};
std::vector<RoleRule> roles_of(const Site& site);

/// What a bank has, apart from its numbers.
struct BankShape {
  std::int64_t neurons = 0;                 ///< of one expert of a feed-forward
  std::vector<std::string> shared, absent;  ///< roles of one tensor for all experts; roles that there are not
};

class RoleBank final : public Bank {
 public:
  explicit RoleBank(const Site& site) : site_(site) {}

  /// Lets the constructor declare its tensors. Throws ComponentFailure, naming it, for roles or shapes that cannot be.
  void bind(const Instance& constructor, ParameterStore& store, const std::string& prefix);

  std::int64_t experts() const override { return site_.experts; }
  bool has(std::string_view role) const override;
  at::Tensor weight(std::string_view role) const override;
  at::Tensor keys() const override { return weight(site_.place == Place::attention ? "q" : "in"); }

  /// Of these experts only, [n, …]; of all when `which` is null. A role of first dimension 1 stays so. Undefined: no such role.
  at::Tensor maybe(std::string_view role, const std::vector<std::int64_t>* which) const;
  bool derives() const { return !layout_.derived.empty(); }
  const Layout& layout() const { return layout_; }
  BankShape shape() const;
  std::int64_t neurons() const { return neurons_; }  ///< of one expert of a feed-forward
  /// The first dimension of a role; 0: there is none.
  std::int64_t first_dimension(const std::string& role) const;

 private:
  Site site_;
  const Instance* constructor_ = nullptr;
  Layout layout_;
  std::map<std::string, Weight> stored_;
  std::map<std::string, std::vector<std::int64_t>> shapes_;  // of all roles
  std::int64_t neurons_ = 0;
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_LAYERS_ROLE_BANK_H_
