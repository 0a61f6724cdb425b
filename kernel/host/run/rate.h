// How fast a stage goes and how long the rest of a run will take.
#ifndef MOIETY_KERNEL_HOST_RUN_RATE_H_
#define MOIETY_KERNEL_HOST_RUN_RATE_H_

#include <map>
#include <optional>
#include <string>

namespace moiety::host {

/// Units a second, smoothed over about ten seconds.
class Rate {
 public:
  void see(double done, double at_seconds);
  std::optional<double> per_second() const { return rate_; }
  std::optional<double> seconds_for(double units) const;

 private:
  bool seen_ = false;
  double done_ = 0, at_ = 0;
  std::optional<double> rate_;
};

/// Seconds that stages will take, learnt from those of this run that have ended: of a stage of the same name their mean, else its
/// FLOPs by the rate seen so far, else unknown.
class Durations {
 public:
  void ended(const std::string& stage_name, double seconds, double flops);
  std::optional<double> expect(const std::string& stage_name, double flops) const;

 private:
  struct Mean {
    int n = 0;
    double sum = 0;
  };
  std::map<std::string, Mean> by_name_;
  double seconds_ = 0, flops_ = 0;
};

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RUN_RATE_H_
