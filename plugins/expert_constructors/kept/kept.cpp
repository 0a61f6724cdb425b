// Experts that are there already: as many as the site has, of so many neurons each. It makes none of a dense layer; the verb
// `prune` declares with it what it keeps.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "../dense_layers.h"
#include "moiety/expert_constructor.h"

namespace {

using namespace moiety;

class Kept final : public ExpertConstructor {
 public:
  struct Options {
    std::int64_t neurons;
    std::vector<std::string> shared, absent;
  };
  static constexpr Parameter parameters[] = {
      param<&Options::neurons>("neurons", 0, "of each expert of a feed-forward; 0: as many as the dense one has")
          .range(0, 1000000)
          .in("neurons"),
      optional<&Options::shared>("shared", "roles of which they have one together, such as out_bias"),
      optional<&Options::absent>("absent", "roles that they have not")};

  explicit Kept(Options options) : options_(std::move(options)) {}

  void check(const Facts& facts, Problems& problems) const override {
    if (facts.sources > 0) problems.add("", "makes no experts of a model: it stands for experts that are there already");
  }
  std::int64_t count(const Facts&) const override { return 0; }
  void plan(const Sources&, const Site&, const Activations*, Random) override {
    throw std::invalid_argument("makes no experts of a model");
  }
  Layout bind(const Site& site, Parameters& to) override {
    Site own = site;
    if (options_.neurons > 0) own.inner = options_.neurons;
    for (const Role& role : layer_roles(own)) {
      if (named(options_.absent, role)) continue;
      to.add(named(options_.shared, role) ? constructors::shared_by_experts(role) : constructors::of_experts(role, site.experts));
    }
    return {};
  }
  TensorMap expand(const Sources&, const Site&) const override { return {}; }

 private:
  static bool named(const std::vector<std::string>& roles, const Role& role) {
    return std::find(roles.begin(), roles.end(), role.name) != roles.end();
  }

  Options options_;
};

}  // namespace

MOIETY_PLUGIN("kept", "1.0.0", "Experts that are there already",
              component<Kept>("kept", 1, "Declares experts that a model has already, as `prune` leaves them"));
