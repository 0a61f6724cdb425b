// A probe reads a model and data, changes nothing, and reports metrics and results.
#ifndef MOIETY_PROBE_H_
#define MOIETY_PROBE_H_

#include "moiety/archive.h"
#include "moiety/component.h"
#include "moiety/model.h"
#include "moiety/plugin.h"
#include "moiety/random.h"
#include "moiety/report.h"

namespace moiety {

class Probe : public Component {
 public:
  static constexpr const char* kind = "probe";
  /// May be called once for each snapshot that is measured (`at`); labels of the snapshot are added by the engine.
  virtual void measure(const Model&, const Data&, Report&, Random) = 0;
  /// After the last measure(): results over all of them, such as where something peaked. `points`: what was measured, in order, as
  /// the recipe writes it ("10%"); empty where the stage was measured as it ended.
  virtual void finish(const std::vector<std::string>& points, Report&) { static_cast<void>(points); }
};

}  // namespace moiety

#endif  // MOIETY_PROBE_H_
