#include "kernel/host/discovery/probe.h"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "kernel/base/text.h"
#include "kernel/host/json_fields.h"
#include "kernel/host/run/process.h"

namespace moiety::host {
namespace {

using nlohmann::json;

/// The document that the worker printed. A plugin's initialiser may have written to stdout before it: then the last line counts.
json read_document(const std::string& output) {
  json whole = json::parse(output, nullptr, false);
  if (!whole.is_object())
    whole = json::parse(output.substr(output.find_last_of('\n', output.empty() ? 0 : output.find_last_not_of('\n')) + 1), nullptr,
                        false);
  return whole;
}

std::string why(const Captured& captured, double limit) {
  const auto said = last_words(captured.errors, 400);
  const auto detail = said.empty() ? "" : ": " + printable(said);
  if (captured.timed_out) return fmt::format("gave no answer within {} (killed)", duration(limit));
  if (captured.exit.signal != 0) return captured.exit.text() + detail;
  if (captured.exit.code != 0) return (said.empty() ? captured.exit.text() : printable(said));
  return "printed no JSON" + detail;
}

Result<Captured> ask(const std::string& worker, std::vector<std::string> words, double limit) {
  Command command;
  command.words = {worker};
  command.words.insert(command.words.end(), words.begin(), words.end());
  // One thread: no pool is started only to read a descriptor.
  command.environment = {{"OMP_NUM_THREADS", "1"}, {"OPENBLAS_NUM_THREADS", "1"}};
  command.stderr_to_pipe = true;
  return capture(command, limit);
}

/// Answers by path; nothing when the process did not end well.
std::optional<std::map<std::string, json>> answers(const Captured& captured) {
  if (!captured.exit.ok() || captured.timed_out) return std::nullopt;
  const json document = read_document(captured.output);
  const auto& files = member_at(document, "files");
  if (!files.is_array()) return std::nullopt;
  std::map<std::string, json> found;
  for (const auto& file : files) {
    if (member_at(file, "path").is_string()) found[text_at(file, "path")] = file;
  }
  return found;
}

json probe_one(const std::string& worker, const std::string& file, double limit) {
  const json path = {{"path", file}};
  auto failed = [&path](const std::string& reason) {
    json answer = path;
    answer["error"] = reason;
    return answer;
  };
  const auto captured = ask(worker, {"--probe", file}, limit);
  if (!captured) return failed(captured.error().message);
  if (captured->interrupted != 0) return failed("not probed: interrupted");
  const auto found = answers(*captured);
  if (!found || found->count(file) == 0) return failed(why(*captured, limit));
  return found->at(file);
}

}  // namespace

Result<json> describe_worker(const std::string& worker, double limit_seconds) {
  const auto captured = ask(worker, {"--describe"}, limit_seconds);
  if (!captured) return pass(captured);
  json said = captured->exit.ok() && !captured->timed_out ? read_document(captured->output) : json();
  if (said.is_object()) return said;
  return fail(ErrorKind::environment, worker + " --describe: " + why(*captured, limit_seconds),
              captured->errors.find("shared librar") != std::string::npos
                  ? "install the missing library (ldd " + worker + " names it)"
                  : "");
}

std::vector<json> probe_files(const std::string& worker, const std::vector<std::string>& files, double limit_seconds) {
  std::vector<json> said;
  if (files.empty()) return said;
  std::map<std::string, json> shared;
  if (files.size() > 1) {
    std::vector<std::string> words = {"--probe"};
    words.insert(words.end(), files.begin(), files.end());
    if (const auto captured = ask(worker, words, limit_seconds)) {
      if (auto found = answers(*captured)) shared = std::move(*found);
    }
  }
  for (const auto& file : files) {
    const auto found = shared.find(file);
    said.push_back(found != shared.end() ? found->second : probe_one(worker, file, limit_seconds));
  }
  return said;
}

}  // namespace moiety::host
