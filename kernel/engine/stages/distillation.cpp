#include "kernel/engine/stages/distillation.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "kernel/engine/stages/stage_model.h"

namespace moiety::engine {

at::Tensor distilled_loss(const at::Tensor& student, const at::Tensor& teacher, const at::Tensor& targets,
                          const Distillation& distillation) {
  const double t = distillation.temperature;
  const at::Tensor of_labels = at::nll_loss(at::log_softmax(student, 1), targets);
  const at::Tensor logs = at::log_softmax(teacher.detach() / t, 1);
  const at::Tensor divergence = (logs.exp() * (logs - at::log_softmax(student / t, 1))).sum(1).mean();
  return of_labels * (1 - distillation.weight) + divergence * (distillation.weight * t * t);
}

Result<std::unique_ptr<Gpt>> teacher_of(const StageContext& context, const Architecture& student) {
  const JobInput* input = context.job.input("teacher");
  if (input == nullptr) return std::unique_ptr<Gpt>();
  auto model = model_of(*input, context.components);
  if (!model) return pass(model);
  const Architecture& teacher = (*model)->architecture();
  if (teacher.vocabulary != student.vocabulary || teacher.context < student.longest_item())
    return fail(ErrorKind::failed, fmt::format("teacher: it reads {} words in sequences of {}, the student {} in sequences of {}",
                                               teacher.vocabulary, teacher.context, student.vocabulary, student.longest_item()));
  if (student.classes > 0 && teacher.classes != student.classes)
    return fail(ErrorKind::failed,
                fmt::format("teacher: it tells {} classes apart, the task has {}", teacher.classes, student.classes));
  return model;
}

double check_teacher(const CheckContext& context, bool distills, std::int64_t classes, const Work& work,
                     ConfigProblems& problems) {
  const JobInput* input = context.job.input("teacher");
  if (input == nullptr) {
    if (distills) problems.push_back({"distill", "there is no `teacher` to learn from"});
    return 0;
  }
  const auto teacher = planned_of(*input, context);
  if (!teacher) {
    problems.push_back({"teacher", teacher.error().message});
    return 0;
  }
  if (classes > 1 && teacher->architecture.classes > 1 && teacher->architecture.classes != classes)
    problems.push_back(
        {"teacher", fmt::format("it tells {} classes apart, the task has {}", teacher->architecture.classes, classes)});
  if (classes > 0 && teacher->architecture.classes == 0)
    problems.push_back({"teacher", "it has no classification head: name a stage tuned for the task"});
  return forward_flops(*teacher, work);
}

}  // namespace moiety::engine
