// Whole studies in drafts/*/: what `moiety plan` says of them, with the real worker and the components that there are. What is
// missing is refused by name; the rest is planned. Corpora and tasks are made up (drafts/data): nothing reads their text. The
// text stands beside each recipe as NAME.txt; MOIETY_UPDATE_GOLDEN=1 writes them anew: read the difference before committing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "kernel/base/files.h"
#include "kernel/base/text.h"
#include "kernel/host/discovery/locate.h"
#include "kernel/host/run/process.h"

namespace moiety::host {
namespace {

namespace fs = std::filesystem;

const std::string folder = std::string(MOIETY_SOURCE_FOLDER) + "/tests/drafts";

/// "bam/matched", …
std::vector<std::string> draft_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto name = fs::relative(entry.path(), folder).replace_extension().string();
    if (entry.path().extension() == ".toml" && name.rfind("data/", 0) != 0) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The errors, without the folders of this machine; or how much there is to run.
std::string shown(const Captured& plan) {
  std::string text;
  for (const auto& line : split(plan.exit.code == 0 ? plan.output : plan.errors, '\n')) {
    const bool counts = line.find(" runs (") != std::string::npos;
    if (plan.exit.code == 0 ? counts : !line.empty() && line.rfind("searched for plugins", 0) != 0) text += line + "\n";
  }
  return text;
}

TEST(Drafts, what_is_there_is_planned_and_what_is_not_is_refused_by_name) {
  const TemporaryFolder place;
  for (const auto& name : draft_names()) {
    SCOPED_TRACE(name);
    Command command;
    command.words = {program_folder() + "/moiety", "plan", name + ".toml"};
    command.environment = {{"MOIETY_RECIPES", folder + "/data"},
                           {"MOIETY_STORE", place / "store"},
                           {"MOIETY_DB", place / "moiety.db"},
                           {"HOME", place.path()},
                           {"TERM", "dumb"}};
    command.folder = folder;
    command.stderr_to_pipe = true;
    const auto plan = capture(command, 120);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_TRUE(plan->exit.code == 0 || plan->exit.code == 2) << plan->errors;
    const std::string path = folder + "/" + name + ".txt";
    if (std::getenv("MOIETY_UPDATE_GOLDEN") != nullptr) {
      ASSERT_TRUE(write_file(path, shown(*plan)));
    } else {
      EXPECT_EQ(shown(*plan), read_file(path).value_or("the file is missing"));
    }
  }
}

}  // namespace
}  // namespace moiety::host
