// The label of a sequence is its expert: the domain that it comes from, or the cluster that a clustering puts it into.
//
//   i(sequence) = label        every token of it; weight exactly 1, no gradient
//
// by = domain is the oracle among routers (the experts of the run's domains, in their order); by = cluster trains hard mixtures
// and projected networks: Grangier et al., "Need a Small Specialized Language Model? Plan Early!", 2024, sections 2.5 and 2.6.
#include <ATen/ATen.h>

#include <stdexcept>

#include "moiety/router.h"

namespace {

using namespace moiety;

MOIETY_CHOICE(By, automatic, domain, cluster);

class Label final : public Router {
 public:
  struct Options {
    By by;
    StageInput clusters;
  };
  static constexpr Parameter parameters[] = {
      param<&Options::by>("by", By::automatic, "which label; automatic: the cluster if `clusters` is given, else the domain"),
      optional<&Options::clusters>("clusters", "the stage whose clustering labels the sequences").of("clustering")};

  explicit Label(Options options) : options_(std::move(options)) {}

  Needs needs() const override {
    Needs needs;
    needs.domain_labels = !by_cluster();
    needs.cluster_labels = by_cluster();
    return needs;
  }
  void check(const Facts& facts, Problems& problems) const override {
    const bool given = !options_.clusters.slot.empty();
    if (by_cluster() && !given) problems.add("clusters", "which clustering? by = \"cluster\" needs one");
    if (!by_cluster() && given) problems.add("clusters", "is not read, since the label is the domain");
    const std::int64_t labels = by_cluster() ? facts.clusters : static_cast<std::int64_t>(facts.domains.size());
    if (facts.site != nullptr && facts.site->experts > 0 && labels > facts.site->experts)
      problems.add("", "there are " + std::to_string(labels) + (by_cluster() ? " clusters" : " domains") + ", but only " +
                           std::to_string(facts.site->experts) + " experts");
  }
  RouterCost cost(const Site&) const override { return {1, 0}; }
  Rows rows() const override { return Rows::sequence; }
  void bind(const Site& site, Parameters&, const Bank&) override { experts_ = site.experts; }

  Routing route(const RouterInput& input) const override {
    const at::Tensor& labels = by_cluster() ? input.cluster : input.domain;
    const std::string what = by_cluster() ? "cluster" : "domain";
    if (!labels.defined()) throw std::invalid_argument("the " + what + " of the sequences is not known here");
    const at::Tensor given = labels.to(at::kCPU, at::kLong).contiguous();
    if (given.dim() != 1 || given.size(0) != input.hidden.size(0))
      throw std::invalid_argument("there is not one " + what + " for each sequence");
    const auto* label = given.data_ptr<std::int64_t>();
    for (std::int64_t row = 0; row < given.size(0); ++row) {
      if (label[row] < 0 || label[row] >= experts_)
        throw std::invalid_argument("sequence " + std::to_string(row) + " has the " + what + " " + std::to_string(label[row]) +
                                    ", but there are the experts 0 to " + std::to_string(experts_ - 1));
    }
    Routing routing;
    routing.experts = labels.to(at::kLong).unsqueeze(1);
    return routing;
  }

 private:
  bool by_cluster() const {
    return options_.by == By::cluster || (options_.by == By::automatic && !options_.clusters.slot.empty());
  }

  Options options_;
  std::int64_t experts_ = 0;
};

}  // namespace

MOIETY_PLUGIN("label", "1.0.0", "Routing by the label of a sequence",
              component<Label>("label", 1, "The domain or the cluster of a sequence is its expert",
                               "Grangier et al., Need a Small Specialized Language Model? Plan Early!, 2024"));
