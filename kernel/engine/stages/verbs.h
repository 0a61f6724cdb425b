// The verbs there are, each in its own file.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_VERBS_H_
#define MOIETY_KERNEL_ENGINE_STAGES_VERBS_H_

#include "kernel/engine/stages/stage.h"

namespace moiety::engine {

Verb pretrain_verb();
Verb construct_verb();
Verb finetune_verb();
Verb evaluate_verb();
Verb cluster_verb();
Verb probe_verb();
Verb regress_verb();
Verb extract_verb();
Verb recompose_verb();
Verb prune_verb();

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_VERBS_H_
