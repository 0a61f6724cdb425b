// Models that a stage reads beside the one it trains, and what their routers must be told about windows.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_READ_MODELS_H_
#define MOIETY_KERNEL_ENGINE_STAGES_READ_MODELS_H_

#include <memory>
#include <string>
#include <vector>

#include "kernel/engine/model/model_file.h"
#include "kernel/engine/stages/stage.h"
#include "kernel/engine/stages/validation.h"

namespace moiety::engine {

/// As its stage left it.
Result<std::unique_ptr<Gpt>> model_of(const JobInput& input, const ComponentSet& components);

/// Domains in the order in which a model was trained on them, as a file of its artifact: who measures it on some of them numbers
/// them alike.
std::map<std::string, std::string> domain_file(const std::vector<std::string>& names);
/// The files of an artifact that tell about the windows of its model, for an artifact made from it; empty without.
Result<std::map<std::string, std::string>> inherited_files(const std::string& artifact);

/// What an artifact made from a model alone keeps of it: those files, and how far its domains have been read.
Status hand_on(const std::string& artifact, StageOutcome& outcome);

struct LabelledText {
  const TokenStreams* streams;
  const std::vector<std::string>* names;    ///< of the streams' domains
  const std::vector<std::string>* domains;  ///< of the corpus
  std::int64_t context;
  bool training;  ///< it is of the training split
};
/// What the model's routers ask for. `artifact`: where the model comes from; empty: it is fresh. `own_numbers`: its domains are
/// numbered anew, as these streams have them.
Result<WindowLabels> window_labels(const Gpt& model, const std::string& artifact, const ComponentSet& components,
                                   const LabelledText& text, bool own_numbers);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_READ_MODELS_H_
