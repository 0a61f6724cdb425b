// A sampler says which windows of a domain are read next. How many of each domain is the mixing scheduler's affair.
#ifndef MOIETY_SAMPLER_H_
#define MOIETY_SAMPLER_H_

#include <vector>

#include "moiety/archive.h"
#include "moiety/component.h"
#include "moiety/plugin.h"
#include "moiety/random.h"

namespace moiety {

/// The training windows there are: `domain[i]` of window i; windows of a domain are consecutive.
struct WindowTable {
  std::vector<std::int64_t> first, count;  ///< of each domain
};

class Sampler : public Component {
 public:
  static constexpr const char* kind = "sampler";
  /// The order of a domain's windows depends on the stream, the domain and the sampler alone.
  virtual void start(const WindowTable& pool, Random) = 0;
  /// Appends `counts[d]` windows of each domain d, domain by domain. How far each domain has been read is its state.
  virtual void draw(const std::vector<std::int64_t>& counts, std::vector<std::int64_t>& windows) = 0;
};

}  // namespace moiety

#endif  // MOIETY_SAMPLER_H_
