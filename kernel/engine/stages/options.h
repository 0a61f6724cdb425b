// A verb's own keys out of the job's config, by declaration.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_OPTIONS_H_
#define MOIETY_KERNEL_ENGINE_STAGES_OPTIONS_H_

#include <string>
#include <vector>

#include "kernel/engine/stages/stage.h"

namespace moiety::engine {

template <class Options>
struct StageOptions {
  Options values;
  std::vector<Instance> parts;  ///< components among the parameters, by slot
  ConfigProblems problems;

  const Instance& part(const std::string& slot) const {
    for (const auto& one : parts)
      if (one.slot == slot) return one;
    throw std::logic_error("no part " + slot);
  }
  /// The first problem as an error: before the run they were all reported.
  Status status() const {
    if (problems.empty()) return {};
    return fail(ErrorKind::usage, (problems.front().path.empty() ? "" : problems.front().path + ": ") + problems.front().message);
  }
};

template <class Options, std::size_t n>
StageOptions<Options> stage_options(const Parameter (&parameters)[n], const Job& job, const ComponentSet& components) {
  StageOptions<Options> read;
  read.values = read_options<Options>(parameters, job.config, "", components.part_maker(read.parts), read.problems);
  unknown_keys(parameters, n, job.config, "", common_keys(), read.problems);
  return read;
}

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_OPTIONS_H_
