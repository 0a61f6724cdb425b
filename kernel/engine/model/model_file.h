// A model as a stage left it: the manifest names its components, the tensors lie beside it.
#ifndef MOIETY_KERNEL_ENGINE_MODEL_MODEL_FILE_H_
#define MOIETY_KERNEL_ENGINE_MODEL_MODEL_FILE_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "kernel/base/result.h"
#include "kernel/engine/checkpoint/safetensors.h"
#include "kernel/engine/model/gpt.h"
#include "kernel/engine/plugins/component_set.h"

namespace moiety::engine {

/// What lies in an artifact.
struct ModelFile {
  std::string path;
  Architecture architecture;
  nlohmann::json manifest;
  TensorMap tensors, state;  ///< state: what the components of its sites remember
};

Result<nlohmann::json> read_manifest(const std::string& artifact);
/// Sizes and SHA-256 are checked.
Result<ModelFile> read_model_file(const std::string& artifact);

/// What the components of an artifact's sites remember, checked like the model; empty where they remember nothing.
Result<TensorMap> read_site_state(const std::string& artifact, const nlohmann::json& manifest);

/// "sites" of a manifest.
nlohmann::json describe_sites(const Gpt& model);
/// What the model computes with, adapters added to their matrices; as a checkpoint keeps it: these matrices and adapters apart.
NamedTensors tensors_of(const Gpt& model);
NamedTensors trained_tensors_of(const Gpt& model);
NamedTensors state_of_sites(Gpt& model);

/// Makes the sites that a manifest describes: make → state. `state` is the artifact's, or that of a checkpoint.
Result<Sites> make_sites(const nlohmann::json& manifest, const Architecture& architecture, const ComponentSet& components,
                         const TensorMap& state);

/// The model that was read, its sites made and remembering what they did.
Result<std::unique_ptr<Gpt>> model_from(const ModelFile& file, const ComponentSet& components);

/// Copies tensors into the model: all of them must be there with the right shape, but for those named in `fresh` by prefix, which
/// keep their start; what the model does not have may be left over only if it begins with `ignored`.
Status load_tensors(Gpt& model, const TensorMap& tensors, const std::string& fresh = {}, const std::string& ignored = {});

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_MODEL_MODEL_FILE_H_
