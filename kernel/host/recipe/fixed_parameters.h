// The parameters of the tables that neither a verb nor a component declares.
#ifndef MOIETY_KERNEL_HOST_RECIPE_FIXED_PARAMETERS_H_
#define MOIETY_KERNEL_HOST_RECIPE_FIXED_PARAMETERS_H_

#include <vector>

#include "kernel/host/catalog.h"

namespace moiety::host {

std::vector<ParameterDeclaration> recipe_parameters();
std::vector<ParameterDeclaration> corpus_parameters();
std::vector<ParameterDeclaration> limits_parameters();
std::vector<ParameterDeclaration> plugins_parameters();

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_FIXED_PARAMETERS_H_
