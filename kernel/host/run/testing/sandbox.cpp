#include "kernel/host/run/testing/sandbox.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "kernel/base/text.h"
#include "kernel/host/discovery/locate.h"
#include "registry/connection.h"

namespace moiety::host::testing {
namespace fs = std::filesystem;

Sandbox::Sandbox() {
  const auto programs = program_folder();
  environment_ = {{"MOIETY_WORKER", programs + "/moiety-fake-worker"},
                  {"MOIETY_DATA", programs + "/moiety-fake-data"},
                  {"MOIETY_RECIPES", path("recipes")},
                  {"MOIETY_STORE", store()},
                  {"MOIETY_DB", registry()},
                  {"FAKE_LOG", path("calls")},
                  {"MOIETY_PLUGIN_PATH", path("plugins")},
                  {"MOIETY_NO_DIFF", "1"},
                  {"TERM", "dumb"},
                  {"HOME", path("home")}};
  fs::create_directories(path("plugins"));
  fs::create_directories(path("recipes/corpora"));
  fs::create_directories(path("recipes/tasks"));
  write("recipes/corpora/debian-8.toml", "name = \"debian-8\"\nversion = 1\n");
}

void Sandbox::write(const std::string& name, const std::string& text) const {
  fs::create_directories(fs::path(path(name)).parent_path());
  ASSERT_TRUE(write_file(path(name), text));
}

Command Sandbox::command(std::vector<std::string> words) const {
  Command command;
  command.words = {program_folder() + "/moiety"};
  for (auto& word : words) command.words.push_back(std::move(word));
  for (const auto& [name, value] : environment_) command.environment.emplace_back(name, value);
  command.folder = path("");
  command.stderr_to_pipe = true;
  return command;
}

Ran Sandbox::run(std::vector<std::string> words) const {
  const auto captured = capture(command(std::move(words)), 60);
  if (!captured) return {999, "", captured.error().message};
  EXPECT_FALSE(captured->timed_out) << captured->output << captured->errors;
  return {captured->exit.signal != 0 ? 128 + captured->exit.signal : captured->exit.code, captured->output, captured->errors};
}

Ran Sandbox::run_recipe(std::vector<std::string> more) const {
  std::vector<std::string> words = {"run", "recipe.toml"};
  for (auto& word : more) words.push_back(std::move(word));
  return run(std::move(words));
}

int Sandbox::calls(const std::string& start) const {
  const auto text = read_file(path("calls"));
  if (!text) return 0;
  int n = 0;
  for (const auto& line : split(*text, '\n')) n += !line.empty() && line.rfind(start, 0) == 0 ? 1 : 0;
  return n;
}

void Sandbox::forget_calls() const { fs::remove(path("calls")); }

std::string Sandbox::sql(const std::string& query) const {
  auto database = registry::Database::open(registry(), registry::Database::Access::read_only);
  if (!database) return database.error().message;
  const auto text = database->text(query);
  if (!text) return text.error().message;
  return text->value_or("");
}

bool Sandbox::wait_for_call(const std::string& start, int times) const {
  for (int i = 0; i < 1000; ++i) {
    if (calls(start) >= times) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

std::string two_arm_recipe(const std::string& tuned_keys, const std::string& more) {
  return R"([recipe]
name = "small"
seeds = 3
baseline = "low"

[model]
layers = 2

[stage.base]
do = "train"
seed = 1

[stage.tuned]
do = "train"
from = "base"
)" + tuned_keys +
         R"(
[stage.score]
do = "evaluate"
from = "tuned"

[arm]
low = {}
high = { stage.tuned.level = 0.7 }
)" + more;
}

}  // namespace moiety::host::testing
