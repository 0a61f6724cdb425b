// AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019) over one flat list of numbers: one pass over
// memory a step, clipping of the global norm included.
#ifndef MOIETY_KERNEL_ENGINE_NUMERICS_ADAMW_H_
#define MOIETY_KERNEL_ENGINE_NUMERICS_ADAMW_H_

#include <cstdint>
#include <vector>

namespace moiety::engine {

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  double clip = 1;  ///< largest global norm of the gradient; 0: none
};
inline constexpr AdamOptions adam_defaults;

struct SgdOptions {
  double momentum = 0, weight_decay = 0;
  double clip = 1;  ///< as above
};
inline constexpr SgdOptions sgd_defaults;

/// A stretch of the flat list in which weight decay applies or not.
struct DecaySegment {
  std::int64_t begin = 0, end = 0;
  bool decays = true;
};

/// The Euclidean norm, added up in double in a fixed order: it does not depend on the number of threads.
double gradient_norm(const float* gradient, std::int64_t size);

/// Step `step` (from 1). `values`, `first` and `second` are updated, `gradient` is set to zero. Segments are in order and cover
/// what is trained; numbers outside them are left alone. `norm` is gradient_norm() of the whole gradient.
void adamw_step(const std::vector<DecaySegment>& segments, float* values, float* gradient, float* first, float* second,
                std::int64_t step, double learning_rate, double norm, const AdamOptions& options);

/// Stochastic gradient descent: m ← momentum · m + g, x ← (1 − rate · weight_decay) x − rate · m; the rest as above.
void sgd_step(const std::vector<DecaySegment>& segments, float* values, float* gradient, float* momentum, double learning_rate,
              double norm, const SgdOptions& options);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_NUMERICS_ADAMW_H_
