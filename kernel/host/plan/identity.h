// The identity of a stage: a hash of everything that decides its outcome, and of nothing else.
#ifndef MOIETY_KERNEL_HOST_PLAN_IDENTITY_H_
#define MOIETY_KERNEL_HOST_PLAN_IDENTITY_H_

#include <nlohmann/json.hpp>
#include <string>

#include "kernel/host/plan/plan.h"

namespace moiety::host {

/// What is hashed. Not in it: names of stages, arms and recipe, texts for people, claims, and seeds of purposes that the verb
/// does not draw from.
nlohmann::json identity_text(const PlannedStage& stage, const Catalog& catalog);

/// SHA-256 of the text with sorted keys.
std::string identity_of(const nlohmann::json& text);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_PLAN_IDENTITY_H_
