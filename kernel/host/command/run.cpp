#include "kernel/host/run/run.h"

#include "kernel/base/text.h"
#include "kernel/host/command/command.h"
#include "kernel/host/discovery/locate.h"

namespace moiety::host {
namespace {

/// A word as a shell takes it.
std::string quoted(const std::string& word) {
  if (!word.empty() &&
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=-+:,@%") == std::string::npos)
    return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string typed_again(const Arguments& arguments) {
  std::string text = "moiety run " + quoted(arguments.words()[0]);
  for (const auto& [name, value] : arguments.in_order()) text += " --" + name + (value.empty() ? "" : " " + quoted(value));
  return printable(text);
}

int run(const Arguments& arguments) {
  RunRequest request;
  request.recipe = recipe_request(arguments);
  request.recipe.quiet = arguments.has("quiet");
  request.registry = registry_path(arguments.value("registry"));
  const auto jobs = arguments.number("jobs", 0, 1);
  if (!jobs) return complain(jobs.error());
  const auto failures = arguments.number("max-failures", 0, 1);
  if (!failures) return complain(failures.error());
  request.jobs = *jobs;
  request.max_failures = *failures;
  request.require = arguments.values("require");
  request.again = typed_again(arguments);
  return run_recipe(request);
}

}  // namespace

std::vector<Subcommand> run_commands() {
  auto options = recipe_options();
  for (OptionSpec option :
       {OptionSpec{"jobs", "N", "at most so many stages at once (default: cores / threads)"},
        OptionSpec{"max-failures", "N", "stop after so many failed stages (default: run all that can run)"},
        OptionSpec{"require", "CLAIM", "exit 1 when this claim is not supported; may be given several times", true},
        OptionSpec{"quiet", "", "no progress; only failures and the report"}})
    options.push_back(std::move(option));
  std::vector<Subcommand> commands = {
      {"run", "RECIPE", "runs a recipe: data, stages, measurements, verdicts",
       "A stage that the store has is not run again. Ctrl-C stops resumable: the same command goes on.\n"
       "Exit codes: 0 done; 1 a stage failed or a required claim is not supported; 2 the recipe or the command line is\n"
       "wrong, nothing was written; 3 a problem of this machine; 130, 143 stopped by a signal.",
       "moiety run recipes/quickstart.toml --set recipe.seeds=3", options, 1, 1, run}};
  return commands;
}

}  // namespace moiety::host
