#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "kernel/base/text.h"
#include "kernel/host/command/command.h"

namespace moiety::host {
namespace {

std::vector<OptionSpec> common_options() {
  return {{"registry", "FILE", "results database (default: MOIETY_DB, else ./moiety.db)"},
          {"store", "DIR", "finished stages and prepared data (default: MOIETY_STORE, else ~/.cache/moiety)"},
          {"help", "", "this text"}};
}

std::vector<OptionSpec> all_options(const Subcommand& command) {
  auto options = command.options;
  for (auto& option : common_options()) options.push_back(std::move(option));
  return options;
}

std::string usage(const Subcommand& command) {
  return "moiety " + command.name + (command.words.empty() ? "" : " " + command.words) + " [options]";
}

std::string help_of(const Subcommand& command) {
  return command.summary + "\n\nusage: " + usage(command) + "\n\n" + (command.details.empty() ? "" : command.details + "\n\n") +
         options_help(all_options(command)) + "\nexample: " + command.example + "\n";
}

std::string help() {
  std::string text =
      "Moiety trains, composes and compares sparse experts and data mixtures as recipes say.\n\nusage: moiety COMMAND "
      "[arguments]\n\n";
  std::size_t widest = 0;
  for (const auto& command : subcommands()) widest = std::max(widest, command.name.size() + 1 + command.words.size());
  for (const auto& command : subcommands())
    text +=
        fmt::format("  {:<{}}  {}\n", command.name + (command.words.empty() ? "" : " " + command.words), widest, command.summary);
  return text +
         "\n`moiety COMMAND --help` tells all of one command; `moiety --version` the version.\nexample: moiety run "
         "recipes/quickstart.toml\n";
}

/// The command that `given` begins with: two words before one.
const Subcommand* find(const std::vector<std::string>& given, std::size_t* used) {
  for (const std::size_t n : {std::size_t{2}, std::size_t{1}}) {
    if (given.size() < n) continue;
    const auto name = n == 2 ? given[0] + " " + given[1] : given[0];
    for (const auto& command : subcommands()) {
      if (command.name != name) continue;
      *used = n;
      return &command;
    }
  }
  return nullptr;
}

int unknown_command(const std::vector<std::string>& given) {
  std::vector<std::string> names, deeper;
  for (const auto& command : subcommands()) {
    names.push_back(command.name);
    if (command.name.rfind(given[0] + " ", 0) == 0) deeper.push_back(command.name);
  }
  if (!deeper.empty()) {
    const bool alone = given.size() < 2 || given[1] == "--help";
    const auto wanted = alone ? given[0] : given[0] + " " + given[1];
    std::string text;
    for (const auto& name : deeper) text += (text.empty() ? "" : ", ") + ("`moiety " + name + "`");
    return complain({ErrorKind::usage,
                     alone ? "`moiety " + given[0] + "` needs a second word" : "unknown command `" + printable(wanted) + "`",
                     "there is " + text});
  }
  const auto near = did_you_mean(given[0], names);
  return complain({ErrorKind::usage, "unknown command `" + printable(given[0]) + "`",
                   near.empty() ? "`moiety --help` lists all commands" : near});
}

}  // namespace

const std::vector<Subcommand>& subcommands() {
  static const auto* all = [] {
    auto* list = new std::vector<Subcommand>;
    for (auto group :
         {run_commands(), plan_commands(), reading_commands(), plugin_commands(), recipe_commands(), database_commands()}) {
      for (auto& command : group) list->push_back(std::move(command));
    }
    return list;
  }();
  return *all;
}

int dispatch(const std::vector<std::string>& given) {
  if (given.empty() || given[0] == "--help" || given[0] == "-h" || (given[0] == "help" && given.size() == 1)) {
    std::fputs(help().c_str(), given.empty() ? stderr : stdout);
    return given.empty() ? static_cast<int>(ErrorKind::usage) : 0;
  }
  if (given[0] == "--version") {
    std::fputs("moiety " MOIETY_VERSION "\n", stdout);
    return 0;
  }
  if (given[0] == "help")
    return dispatch([&] {
      std::vector<std::string> turned(given.begin() + 1, given.end());
      turned.emplace_back("--help");
      return turned;
    }());
  if (given[0][0] == '-')
    return complain({ErrorKind::usage, "unknown option `" + printable(given[0]) + "`",
                     "options come behind the command: moiety COMMAND [options]"});
  std::size_t used = 0;
  const auto* command = find(given, &used);
  if (command == nullptr) return unknown_command(given);
  const auto arguments = Arguments::parse({given.begin() + static_cast<std::ptrdiff_t>(used), given.end()}, all_options(*command),
                                          command->least_words, command->most_words);
  if (!arguments) {
    auto error = arguments.error();
    if (error.hint.empty()) error.hint = "usage: " + usage(*command);
    return complain(error);
  }
  if (arguments->has("help")) {
    std::fputs(help_of(*command).c_str(), stdout);
    return 0;
  }
  return command->run(*arguments);
}

}  // namespace moiety::host
