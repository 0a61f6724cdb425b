// A subcommand of `moiety`, and the table of all of them.
#ifndef MOIETY_KERNEL_HOST_COMMAND_COMMAND_H_
#define MOIETY_KERNEL_HOST_COMMAND_COMMAND_H_

#include <cstddef>
#include <string>
#include <vector>

#include "kernel/host/command/arguments.h"
#include "kernel/host/run/print.h"

namespace moiety::host {

struct Subcommand {
  std::string name;                 ///< one word or two: "run", "recipe resolve"
  std::string words;                ///< what follows it: "RECIPE"
  std::string summary;              ///< one line
  std::string details;              ///< for its own help; may be empty
  std::string example;              ///< a line that works as typed
  std::vector<OptionSpec> options;  ///< beside --registry, --store and --help, which every command has
  std::size_t least_words = 0, most_words = 0;
  int (*run)(const Arguments& arguments) = nullptr;
};

/// In the order of the help.
const std::vector<Subcommand>& subcommands();

/// The whole program: finds the subcommand, parses, prints help and errors. `given` is without the program's name.
int dispatch(const std::vector<std::string>& given);

// One function a group of commands (files of this folder).
std::vector<Subcommand> run_commands();
std::vector<Subcommand> plan_commands();
std::vector<Subcommand> database_commands();
std::vector<Subcommand> reading_commands();
std::vector<Subcommand> plugin_commands();
std::vector<Subcommand> recipe_commands();

/// --set and --unset in order, --plugin-path, --trust-plugins and the store as a request.
struct RecipeRequest;
RecipeRequest recipe_request(const Arguments& arguments);
/// The options that `recipe_request` reads.
std::vector<OptionSpec> recipe_options();

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_COMMAND_COMMAND_H_
