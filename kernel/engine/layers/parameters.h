// The ordered registry of a model's tensors: one stretch of memory holds all that is trained, a second one its gradient.
#ifndef MOIETY_KERNEL_ENGINE_LAYERS_PARAMETERS_H_
#define MOIETY_KERNEL_ENGINE_LAYERS_PARAMETERS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernel/engine/numerics/adamw.h"
#include "moiety/random.h"
#include "moiety/weights.h"

namespace moiety::engine {

/// W + (alpha / rank) · B A in place of a matrix W [m, n] (of each of N experts): A [rank, n] starts normal(1/√n), B [m, rank]
/// zero, and they alone train. Hu et al., "LoRA", ICLR 2022.
struct LowRank {
  std::int64_t rank = 0;
  double alpha = 0;
};

class ParameterStore {
 public:
  struct Entry {
    std::string name;
    Spec spec;
    std::shared_ptr<at::Tensor> tensor;  ///< undefined until allocate()
    std::int64_t offset = 0;             ///< into the flat list
    at::Tensor base = {};                ///< of an adapted matrix: W, while `tensor` is what is computed with
    bool adapter = false;                ///< A or B of another entry
    std::int64_t size() const;
  };
  using Which = std::function<bool(const Entry&)>;

  explicit ParameterStore(at::ScalarType type = at::kFloat) : type_(type) {}
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  /// Throws std::invalid_argument for a name that is taken or a negative size. A shared spec of the same shape is the same
  /// tensor.
  Weight declare(const std::string& name, Spec spec);
  /// Makes all tensors, zero; those that train get a gradient that lies in flat_gradient(). Once.
  void allocate();
  bool allocated() const { return values_.defined(); }
  /// Gives every tensor its declared start: numbers depend on the stream and the tensor's name alone.
  void initialise(const Random& random);
  void initialise(const Entry& entry, const Random& random);

  /// After allocate(): of what was declared to train only these train on, and those of `adapted` through low-rank adapters, which
  /// are started by the stream. Values stay; handles too.
  void train_only(const Which& trained, const Which& adapted = {}, LowRank rank = {}, const Random& random = Random(0));
  /// Makes the adapted matrices again, of what A and B are now: before each forward pass, in its graph, and after each step.
  void refresh() const;
  bool adapted() const { return !adapters_.empty(); }

  const std::vector<Entry>& entries() const { return entries_; }  ///< in order of declaration
  const Entry* find(const std::string& name) const;
  std::int64_t total() const;      ///< numbers of the model, gaps between tensors and adapters left out
  std::int64_t trainable() const;  ///< numbers that train, adapters included

  const at::Tensor& flat_values() const { return values_; }      ///< [n], what trains first, then what does not
  const at::Tensor& flat_gradient() const { return gradient_; }  ///< [n of what trains]
  const std::vector<DecaySegment>& segments() const { return segments_; }
  void zero_gradient();

 private:
  struct Adapter {
    std::size_t entry, a, b;  ///< places among the entries
    double scale;
  };
  void lay_out();
  void declare_adapter(const std::string& name, Spec spec);

  at::ScalarType type_;
  std::vector<Entry> entries_;
  std::vector<Adapter> adapters_;
  at::Tensor values_, gradient_;
  std::vector<DecaySegment> segments_;
};

/// The part of a store whose names begin with a prefix: what a component is handed.
class PrefixedParameters final : public Parameters {
 public:
  PrefixedParameters(ParameterStore& store, std::string prefix) : store_(store), prefix_(std::move(prefix)) {}
  Weight add(Spec spec) override { return store_.declare((spec.shared ? "all_sites." : prefix_) + spec.name, spec); }

 private:
  ParameterStore& store_;
  std::string prefix_;
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_LAYERS_PARAMETERS_H_
