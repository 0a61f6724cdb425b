// What a sampler reads beside the pool: a clustering of its windows, and windows it aims at.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_SAMPLING_H_
#define MOIETY_KERNEL_ENGINE_STAGES_SAMPLING_H_

#include "kernel/engine/data/corpus.h"
#include "kernel/engine/stages/stage.h"
#include "kernel/engine/stages/window_pool.h"

namespace moiety::engine {

/// Labels the pool by the clustering that the sampler's parameters name, makes the windows of its parameter `target` out of the
/// training split, starts it, and asks whether it can draw so many windows in all.
Status start_sampler(const StageContext& context, const TrainingCorpus& corpus, const Instance& sampler, WindowPool& pool,
                     std::int64_t run_windows, const Random& random);

/// The same before the run, as far as it is known: adds problems, and the number of clusters to the facts.
void check_sampler(const CheckContext& context, const CorpusFacts* corpus, const Instance& sampler, const Instance& mixing,
                   Facts facts, ConfigProblems& problems);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_SAMPLING_H_
