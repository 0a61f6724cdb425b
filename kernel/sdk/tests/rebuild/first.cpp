// Every expert runs, each weighted equally.
#include "moiety/router.h"

namespace {

class Sum final : public moiety::Router {
 public:
  moiety::RouterCost cost(const moiety::Site& site) const override { return {static_cast<double>(site.experts), 0}; }
  void bind(const moiety::Site&, moiety::Parameters&, const moiety::Bank&) override {}
  moiety::Routing route(const moiety::RouterInput& input) const override {
    if (!input.hidden.defined()) throw std::invalid_argument(__FILE__);  // the path must not reach the library's bytes
    return {};
  }
};

}  // namespace

MOIETY_PLUGIN("first", "1.0.0", "Plain sum", moiety::component<Sum>("sum", 1, "All experts, weight 1"));
