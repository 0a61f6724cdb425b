// The model that a training or measuring stage starts with.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_STAGE_MODEL_H_
#define MOIETY_KERNEL_ENGINE_STAGES_STAGE_MODEL_H_

#include <memory>

#include "kernel/engine/model/model_file.h"
#include "kernel/engine/stages/stage.h"

namespace moiety::engine {

struct StartingModel {
  std::unique_ptr<Gpt> model;
  nlohmann::json manifest;  ///< of the stage it comes from, or null
};

/// What a stage wants of the model's end: a classification head of so many classes, reading so many tokens of an item.
struct Head {
  std::int64_t classes = 0, item_tokens = 0;
};

/// The model of the input `from`, else a fresh one of [model] started by the seed `init`; after a resume, that of the checkpoint.
/// `head.classes` > 0: with a classification head, fresh unless the model has one of that size for the same task.
Result<StartingModel> starting_model(const StageContext& context, std::int64_t vocabulary, const Head& head);

/// The same for the dry pass; problems say what is wrong.
std::optional<PlannedModel> planned_starting_model(const CheckContext& context, std::int64_t vocabulary, const Head& head,
                                                   ConfigProblems& problems);

/// The architecture of a fresh [model] with the vocabulary of the job's corpus.
Result<Architecture> fresh_architecture(const Job& job);
/// Of the job's corpus; 0 while that is not prepared.
std::int64_t vocabulary_of(const Job& job);

/// What the dry pass knows of the model that an input will give, at its snapshot.
Result<PlannedModel> planned_of(const JobInput& input, const CheckContext& context);

/// Facts of the model in an artifact, components made and asked, no tensor of the model read.
Result<PlannedModel> planned_model_of(const std::string& artifact, const ComponentSet& components);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_STAGE_MODEL_H_
