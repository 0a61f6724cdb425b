#include "kernel/host/run/data_client.h"

#include "kernel/base/text.h"
#include "kernel/host/json_fields.h"
#include "kernel/host/run/process.h"

namespace moiety::host {
namespace {

using nlohmann::json;
constexpr int kMissing = 4;

/// The last line that is a JSON object.
json last_document(const std::string& output) {
  json last;
  for (const auto& line : split(output, '\n')) {
    json parsed = json::parse(line, nullptr, false);
    if (parsed.is_object()) last = std::move(parsed);
  }
  return last;
}

/// A version may be a number or text.
PreparedFolder folder_of(const json& object) {
  const auto& number = member_at(object, "version");
  const std::string version = number.is_number() ? number.dump() : text_at(object, "version");
  return {text_at(object, "name") + (version.empty() ? "" : "@" + version), text_at(object, "path"), text_at(object, "hash")};
}

}  // namespace

Result<PreparedFolders> prepare_data(const DataRequest& request) {
  PreparedFolders data;
  if (request.corpus.is_null() && request.tasks.empty()) return data;
  Command command;
  command.words = {request.program, "prepare", "--recipe-json", "-", "--store", request.store, "--recipes", request.recipes};
  if (request.check_only) command.words.emplace_back("--check-only");
  command.input = json{{"corpus", request.corpus}, {"tasks", request.tasks}}.dump() + "\n";
  command.stderr_to_pipe = request.quiet;
  const auto captured = capture(command, 0);
  if (!captured) return pass(captured);
  if (captured->interrupted != 0) {
    data.interrupted = captured->interrupted;
    return data;
  }
  const json said = last_document(captured->output);
  if (request.check_only && captured->exit.code == kMissing && said.is_object() && said.contains("missing")) {
    for (const auto& name : said["missing"]) data.missing.push_back(name.is_string() ? name.get<std::string>() : name.dump());
    return data;
  }
  if (!captured->exit.ok()) {
    const auto kind = captured->exit.code == 2   ? ErrorKind::usage
                      : captured->exit.code == 3 ? ErrorKind::environment
                                                 : ErrorKind::failed;
    const std::string said_there = captured->errors.empty() ? "" : printable(captured->errors.substr(0, 2000)) + "\n";
    if (captured->exit.code == 2)
      return fail(kind, said_there + "the recipe's corpus or task cannot be used (see above); nothing was run");
    if (captured->exit.code == 3)
      return fail(kind, said_there + "the recipe's data could not be prepared (see above)",
                  "the same command goes on where this one stopped");
    return fail(kind, said_there + "moiety-data ended with " + captured->exit.text());
  }
  if (!said.is_object())
    return fail(ErrorKind::environment, request.program + " printed no result", "build moiety and moiety-data from one checkout");
  data.corpus = folder_of(member_at(said, "corpus"));
  if (const auto& tasks = member_at(said, "tasks"); tasks.is_array()) {
    for (const auto& task : tasks) {
      if (!task.is_object()) continue;
      const auto folder = folder_of(task);
      data.tasks[folder.name] = folder;
      data.tasks.emplace(text_at(task, "name"), folder);
    }
  }
  if (!request.corpus.is_null() && data.corpus.hash.empty())
    return fail(ErrorKind::environment, request.program + " gave no hash of the corpus",
                "build moiety and moiety-data from one checkout");
  return data;
}

}  // namespace moiety::host
