// Learning from a teacher beside the labels: Hinton, Vinyals and Dean, "Distilling the knowledge in a neural network" (2015).
//
//   (1 − λ) · CE(student, target) + λ · T² · KL(teacher ‖ student), both distributions at temperature T in the second term
#ifndef MOIETY_KERNEL_ENGINE_STAGES_DISTILLATION_H_
#define MOIETY_KERNEL_ENGINE_STAGES_DISTILLATION_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "kernel/engine/stages/read_models.h"

namespace moiety::engine {

struct Distillation {
  double weight = 0.5, temperature = 1;
};

/// Logits [R, n] of both, targets [R] int64: the mean over the rows, differentiable in the student's.
at::Tensor distilled_loss(const at::Tensor& student, const at::Tensor& teacher, const at::Tensor& targets,
                          const Distillation& distillation);

/// The model of the input `teacher`, or null where there is none. `classes` 0: it teaches text. A teacher that says other things
/// than the student is an error.
Result<std::unique_ptr<Gpt>> teacher_of(const StageContext& context, const Architecture& student);
/// The same for the dry pass: problems, and what the forward passes of `work` cost.
double check_teacher(const CheckContext& context, bool distills, std::int64_t classes, const Work& work,
                     ConfigProblems& problems);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_DISTILLATION_H_
