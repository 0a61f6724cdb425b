// A sampler says which windows of a domain are read next. How many of each domain is the mixing scheduler's affair.
#ifndef MOIETY_SAMPLER_H_
#define MOIETY_SAMPLER_H_

#include <vector>

#include "moiety/archive.h"
#include "moiety/component.h"
#include "moiety/plugin.h"
#include "moiety/random.h"

namespace moiety {

/// The windows there are; windows of a domain are consecutive.
struct WindowTable {
  std::vector<std::int64_t> first, count;  ///< of each domain
  std::vector<std::int64_t> cluster;       ///< of each window, −1: none; empty without a clustering
  std::int64_t clusters = 0;

  std::int64_t windows() const { return first.empty() ? 0 : first.back() + count.back(); }
};

/// What the next step asks for.
struct Draw {
  std::vector<std::int64_t> counts;  ///< windows of each domain
  std::int64_t step = 0;
  std::int64_t micro_batch = 0;  ///< windows computed at once
};

class Sampler : public Component {
 public:
  static constexpr const char* kind = "sampler";
  /// The order of a domain's windows depends on the stream, the domain and the sampler alone. `target`: the windows that its
  /// data selection names, with their clusters; null where it has none.
  virtual void start(const WindowTable& pool, const WindowTable* target, Random) = 0;
  /// Whether it chooses among all windows, whatever their domains: mixing then has no say.
  virtual bool across_domains() const { return false; }
  /// Appends `counts[d]` windows of each domain d, domain by domain; across domains as many in all, in the order in which they are
  /// computed. How far each domain has been read is its state.
  virtual void draw(const Draw&, std::vector<std::int64_t>& windows) = 0;
  /// Asked when the stage starts, with the windows of the whole run: what cannot be drawn.
  virtual void check_budget(std::int64_t run_windows, Problems&) const { static_cast<void>(run_windows); }
};

}  // namespace moiety

#endif  // MOIETY_SAMPLER_H_
