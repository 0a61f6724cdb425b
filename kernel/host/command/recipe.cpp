// `moiety recipe resolve`: the recipe with every default and version written out.
#include <cstdio>

#include "kernel/host/command/command.h"
#include "kernel/host/discovery/locate.h"
#include "kernel/host/run/session.h"

namespace moiety::host {

std::vector<OptionSpec> recipe_options() {
  return {{"set", "PATH=VALUE", "another value for a key: --set stage.tuned.batch=16", true},
          {"unset", "PATH", "removes a key or a table: --unset arm.random", true},
          {"plugin-path", "DIR", "search plugins here first; may be given several times", true},
          {"trust-plugins", "", "also search the folders that the recipe itself names"}};
}

RecipeRequest recipe_request(const Arguments& arguments) {
  RecipeRequest request;
  request.path = arguments.words()[0];
  for (const auto& [name, value] : arguments.in_order()) {
    if (name == "set" || name == "unset") request.overrides.push_back({name == "unset", value});
  }
  request.plugin_paths = arguments.values("plugin-path");
  request.trust_plugins = arguments.has("trust-plugins");
  request.store = store_path(arguments.value("store"));
  return request;
}

namespace {

int resolve(const Arguments& arguments) {
  const auto session = open_session(recipe_request(arguments));
  if (!session) return complain(session.error());
  for (const auto& note : (*session)->notes) say(note);
  const auto& recipe = (*session)->recipe;
  std::fputs((arguments.has("origin") ? recipe.resolved_origins : recipe.resolved_text).c_str(), stdout);
  return 0;
}

}  // namespace

std::vector<Subcommand> recipe_commands() {
  auto options = recipe_options();
  options.push_back({"origin", "", "say behind each value where it comes from"});
  return {{"recipe resolve", "RECIPE", "prints a recipe with every default and version written out",
           "This text is what is stored, hashed and run again.", "moiety recipe resolve recipes/quickstart.toml --origin",
           options, 1, 1, resolve}};
}

}  // namespace moiety::host
