// moiety-data: prepares corpora and tasks. It is a program of its own because SentencePiece and LibTorch cannot share a process.
#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <iterator>

#include "kernel/base/files.h"
#include "kernel/base/text.h"
#include "kernel/data/command/prepare.h"
#include "kernel/data/command/show.h"
#include "kernel/data/packages/interruption.h"

namespace moiety::data {
namespace {

namespace po = boost::program_options;

constexpr int kMissing = 4;  // --check-only: something is not prepared yet
constexpr const char* kUsage =
    "moiety-data: corpora and tasks as token files\n"
    "\n"
    "  moiety-data prepare --recipe-json FILE|- [--check-only]   make what a recipe needs, print where it lies as one JSON line\n"
    "  moiety-data list                                          the corpora and tasks there are\n"
    "  moiety-data show CORPUS|TASK                              sizes, packages, licences\n"
    "  moiety-data decode --corpus PATH --domain D --split S --document N   one document as text\n"
    "\n";
constexpr const char* kExitCodes =
    "\n"
    "exit codes: 0 done; 2 unknown corpus or task, wrong file or command line; 3 package not obtainable, disk full or store not "
    "writable;\n"
    "            4 --check-only and something is missing; 130 interrupted\n";

std::string default_store() {
  if (const char* store = std::getenv("MOIETY_STORE"); store != nullptr && *store != 0) return store;
  if (const char* home = std::getenv("HOME"); home != nullptr) return std::string(home) + "/.cache/moiety";
  return ".cache/moiety";
}

po::options_description options() {
  po::options_description all("options");
  auto add = all.add_options();
  add("store", po::value<std::string>()->default_value(default_store())->value_name("DIR"),
      "where prepared data lies (MOIETY_STORE)");
  add("recipes", po::value<std::string>()->default_value("recipes")->value_name("DIR"), "folder with corpora/ and tasks/");
  add("recipe-json", po::value<std::string>()->value_name("FILE|-"), "what to prepare; - reads standard input");
  add("check-only", "say what is missing, prepare nothing");
  add("corpus", po::value<std::string>()->value_name("PATH"), "a prepared corpus");
  add("domain", po::value<std::string>()->value_name("NAME"), "one of its domains");
  add("split", po::value<std::string>()->default_value("train")->value_name("NAME"), "train, valid or test");
  add("document", po::value<std::size_t>()->default_value(0)->value_name("N"), "number of the document, from 0");
  add("help", "this text");
  add("version", "version of the program");
  return all;
}

int report(const Error& error) {
  fmt::print(stderr, "moiety-data: {}\n", error.message);
  if (!error.hint.empty()) fmt::print(stderr, "  {}\n", error.hint);
  return error.exit_code();
}

int print(const Result<std::string>& text) {
  if (!text) return report(text.error());
  fmt::print("{}", *text);
  if (text->empty() || text->back() != '\n') fmt::print("\n");
  return 0;
}

Result<Request> read_request(const std::string& file) {
  if (file == "-") return parse_request(std::string(std::istreambuf_iterator<char>(std::cin), {}));
  const auto text = read_file(file);
  if (!text) return fail(ErrorKind::usage, text.error().message);
  return parse_request(*text);
}

int run_prepare(const po::variables_map& given, const Places& places) {
  if (given.count("recipe-json") == 0)
    return report({ErrorKind::usage, "prepare needs --recipe-json FILE (or - for standard input)", {}});
  const auto request = read_request(given["recipe-json"].as<std::string>());
  if (!request) return report(request.error());
  if (given.count("check-only") > 0) {
    const auto found = check_prepared(*request, places);
    if (!found) return report(found.error());
    fmt::print("{}\n", found->dump());
    return found->contains("missing") ? kMissing : 0;
  }
  watch_for_interruption();
  Progress progress(Progress::style_of_stderr());
  const auto ready = prepare(*request, places, progress);
  if (!ready) {
    progress.clear();
    return report(ready.error());
  }
  fmt::print("{}\n", ready->dump());
  return 0;
}

int run_decode(const po::variables_map& given) {
  for (const char* needed : {"corpus", "domain"}) {
    if (given.count(needed) == 0) return report({ErrorKind::usage, fmt::format("decode needs --{}", needed), {}});
  }
  const auto name = given["split"].as<std::string>();
  for (const Part part : kParts) {
    if (name == name_of(part))
      return print(decode_document(given["corpus"].as<std::string>(), given["domain"].as<std::string>(), part,
                                   given["document"].as<std::size_t>()));
  }
  return report({ErrorKind::usage, fmt::format("unknown split `{}`", printable(name)), "there are train, valid and test"});
}

int dispatch(int argc, char** argv) {
  po::options_description hidden;
  hidden.add_options()("command", po::value<std::vector<std::string>>());
  const auto shown = options();
  po::options_description all;
  all.add(shown).add(hidden);
  po::positional_options_description positions;
  positions.add("command", -1);
  po::variables_map given;
  // No guessing: `--dom` is not `--domain`, so that options added later cannot change what a script means.
  const auto style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  po::store(po::command_line_parser(argc, argv).options(all).positional(positions).style(style).run(), given);
  po::notify(given);
  if (given.count("version") > 0) {
    fmt::print("moiety-data {}\n", MOIETY_VERSION);
    return 0;
  }
  const auto words = given.count("command") > 0 ? given["command"].as<std::vector<std::string>>() : std::vector<std::string>();
  if (given.count("help") > 0 || words.empty()) {
    std::cout << kUsage << shown << kExitCodes;
    return words.empty() && given.count("help") == 0 ? 2 : 0;
  }
  const Places places{given["store"].as<std::string>(), given["recipes"].as<std::string>()};
  const std::string& command = words[0];
  const std::size_t arguments = command == "show" ? 2 : 1;
  if (words.size() > arguments)
    return report({ErrorKind::usage, fmt::format("too much on the command line: `{}`", printable(words[arguments])), {}});
  if (command == "prepare") return run_prepare(given, places);
  if (command == "list") return print(list_all(places));
  if (command == "decode") return run_decode(given);
  if (command == "show" && words.size() == 2) return print(show(words[1], places));
  if (command == "show")
    return report({ErrorKind::usage, "show needs the name of a corpus or task", "moiety-data list names them"});
  return report({ErrorKind::usage, fmt::format("unknown command `{}`", printable(command)),
                 did_you_mean(command, {"prepare", "list", "show", "decode"})});
}

}  // namespace
}  // namespace moiety::data

int main(int argc, char** argv) {
  try {
    return moiety::data::dispatch(argc, argv);
  } catch (const boost::program_options::error& error) {
    fmt::print(stderr, "moiety-data: {}\n  moiety-data --help lists the options\n", moiety::printable(error.what()));
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "moiety-data: unexpected failure: {}\n", moiety::printable(error.what()));
    return 1;
  }
}
