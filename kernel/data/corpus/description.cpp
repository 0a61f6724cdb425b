#include "kernel/data/corpus/description.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>

#include "kernel/base/files.h"
#include "kernel/base/text.h"
#include "kernel/data/corpus/toml_reader.h"
#include "kernel/data/formats/format.h"

namespace moiety::data {
namespace fs = std::filesystem;
namespace {

constexpr long long kLargestVersion = 1000000;

/// A name that becomes part of paths and tables.
void check_name(const std::string& name, const toml::table& place, TomlErrors& errors) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  if (name.empty() || !std::all_of(name.begin(), name.end(), allowed))
    errors.add(place.source(), fmt::format("`{}` is no name: use a-z, 0-9 and -", printable(name)));
}

void read_source(const toml::table& table, TomlErrors& errors, Source& source) {
  TomlReader reader(table, errors);
  reader.text("package", source.package);
  reader.text("format", source.format);
  reader.texts("files", source.files, true);
  reader.texts("exclude", source.exclude);
  reader.texts("labels", source.labels);
  reader.texts("without_labels", source.without_labels);
  reader.number("share", source.share, 0, 1, false);
  reader.text("licence", source.licence);
  reader.end();
  if (!source.format.empty() && find_format(source.format) == nullptr) {
    std::vector<std::string> names;
    for (const auto& format : formats()) names.emplace_back(format.name);
    const std::string hint = did_you_mean(source.format, names);
    errors.add(table.get("format")->source(), fmt::format("unknown format `{}`; {}", printable(source.format),
                                                          hint.empty() ? "there are " + join(names, ", ") : hint));
  }
  // apt takes options and versions from its command line too: a package name must look like one (Debian policy 5.6.1).
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  };
  const bool starts_well =
      !source.package.empty() && source.package[0] != '-' && source.package[0] != '.' && source.package[0] != '+';
  if (!starts_well || !std::all_of(source.package.begin(), source.package.end(), allowed))
    errors.add(table.source(), fmt::format("`{}` is no name of a Debian package", printable(source.package)));
}

void read_split(TomlReader& parent, TomlErrors& errors, Split& split) {
  const auto* table = parent.table("split");
  if (table == nullptr) return;
  long long train = 0;
  long long valid = 0;
  long long test = 0;
  TomlReader reader(*table, errors);
  reader.integer("train", train, 1, 100);
  reader.integer("valid", valid, 0, 100);
  reader.integer("test", test, 0, 100);
  reader.end();
  if (train + valid + test != 100) errors.add(table->source(), "train, valid and test of `split` must add up to 100");
  split = {static_cast<int>(train), static_cast<int>(valid), static_cast<int>(test)};
}

nlohmann::json as_json(const toml::table& table) {
  std::ostringstream text;
  text << toml::json_formatter(table);
  return nlohmann::json::parse(text.str());
}

Result<toml::table> parse(std::string_view text, const std::string& file) {
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    return fail(ErrorKind::usage, fmt::format("{}:{}:{}: error: {}", file, error.source().begin.line, error.source().begin.column,
                                              printable(error.description())));
  }
}

struct Use {
  std::string name;
  int version = 0;  ///< 0: the newest
};

Result<Use> parse_use(const std::string& use) {
  const std::size_t at = use.find('@');
  Use parsed{use.substr(0, at), 0};
  if (at == std::string::npos) return parsed;
  const auto* const end = use.data() + use.size();
  const auto [stop, error] = std::from_chars(use.data() + at + 1, end, parsed.version);
  if (error != std::errc() || stop != end || parsed.version < 1)
    return fail(ErrorKind::usage,
                fmt::format("`{}`: after the @ belongs a version, as in `{}@1`", printable(use), printable(parsed.name)));
  return parsed;
}

/// Text and path of the description that `use` names.
template <class Description>
Result<Description> find(const std::string& use, const std::string& recipes, const std::string& folder, const char* what,
                         Result<Description> (*parse_description)(std::string_view, const std::string&)) {
  const auto wanted = parse_use(use);
  if (!wanted) return pass(wanted);
  const auto names = list_descriptions(recipes, folder);
  if (std::find(names.begin(), names.end(), wanted->name) == names.end()) {
    const std::string near = did_you_mean(wanted->name, names);
    const std::string all =
        names.empty() ? fmt::format("there is none in {}/{}", recipes, folder) : "there are: " + join(names, ", ");
    return fail(ErrorKind::usage, fmt::format("unknown {} `{}`", what, printable(wanted->name)), near.empty() ? all : near);
  }
  const std::string path = recipes + "/" + folder + "/" + wanted->name + ".toml";
  const auto text = read_file(path);
  if (!text) return pass(text);
  auto description = parse_description(*text, path);
  if (!description) return description;
  if (description->name != wanted->name)
    return fail(ErrorKind::usage, fmt::format("{}: error: its name is `{}`, not that of the file", path, description->name));
  if (wanted->version != 0 && description->version != wanted->version)
    return fail(ErrorKind::usage, fmt::format("{} {}@{} is not to be had", what, wanted->name, wanted->version),
                fmt::format("this Moiety has {}@{}", wanted->name, description->version));
  return description;
}

}  // namespace

std::string_view name_of(Part part) {
  constexpr std::array<std::string_view, 3> names = {"train", "valid", "test"};
  return names[static_cast<std::size_t>(part)];
}

double CorpusDescription::characters(std::size_t domain) const {
  return std::floor(head * std::pow(static_cast<double>(domain + 1), -exponent));
}

Result<CorpusDescription> parse_corpus(std::string_view text, const std::string& file) {
  const auto table = parse(text, file);
  if (!table) return pass(table);
  TomlErrors errors(file);
  CorpusDescription corpus;
  corpus.text = as_json(*table);
  TomlReader reader(*table, errors);
  long long version = 1;
  long long document = 0;
  reader.text("name", corpus.name);
  reader.integer("version", version, 1, kLargestVersion);
  reader.text("about", corpus.about);
  reader.integer("document_bytes", document, 1000, 1 << 20);
  read_split(reader, errors, corpus.split);
  if (const auto* sizes = reader.table("sizes")) {
    TomlReader of_sizes(*sizes, errors);
    of_sizes.number("head", corpus.head, 1, 1e12);
    of_sizes.number("exponent", corpus.exponent, 0, 10);
    of_sizes.end();
  }
  corpus.version = static_cast<int>(version);
  corpus.document_bytes = static_cast<std::size_t>(document);
  std::set<std::string> seen;
  for (const auto* entry : reader.tables("domain")) {
    Domain domain;
    TomlReader of_domain(*entry, errors);
    of_domain.text("name", domain.name);
    of_domain.text("about", domain.about);
    for (const auto* source : of_domain.tables("source")) read_source(*source, errors, domain.sources.emplace_back());
    of_domain.end();
    check_name(domain.name, *entry, errors);
    if (!seen.insert(domain.name).second)
      errors.add(entry->source(), fmt::format("the domain `{}` stands here twice", domain.name));
    corpus.domains.push_back(std::move(domain));
  }
  reader.end();
  check_name(corpus.name, *table, errors);
  if (errors.any()) return fail(ErrorKind::usage, errors.text());
  return corpus;
}

Result<TaskDescription> parse_task(std::string_view text, const std::string& file) {
  const auto table = parse(text, file);
  if (!table) return pass(table);
  TomlErrors errors(file);
  TaskDescription task;
  task.text = as_json(*table);
  TomlReader reader(*table, errors);
  long long version = 1;
  long long longest = 0;
  reader.text("name", task.name);
  reader.integer("version", version, 1, kLargestVersion);
  reader.text("about", task.about);
  reader.text("kind", task.kind);
  reader.integer("longest", longest, 1, 1 << 20);
  reader.text("salt", task.salt, false);
  reader.texts("classes", task.classes, true);
  read_split(reader, errors, task.split);
  if (const auto* source = reader.table("source")) read_source(*source, errors, task.source);
  reader.end();
  check_name(task.name, *table, errors);
  task.version = static_cast<int>(version);
  task.longest = static_cast<std::size_t>(longest);
  if (!task.kind.empty() && task.kind != "classification")
    errors.add(table->get("kind")->source(), "`kind` must be classification");
  if (std::set<std::string>(task.classes.begin(), task.classes.end()).size() != task.classes.size())
    errors.add(table->get("classes")->source(), "a class stands in `classes` twice");
  if (errors.any()) return fail(ErrorKind::usage, errors.text());
  return task;
}

Result<CorpusDescription> find_corpus(const std::string& use, const std::string& recipes) {
  return find<CorpusDescription>(use, recipes, "corpora", "corpus", parse_corpus);
}

Result<TaskDescription> find_task(const std::string& use, const std::string& recipes) {
  return find<TaskDescription>(use, recipes, "tasks", "task", parse_task);
}

std::vector<std::string> list_descriptions(const std::string& recipes, const std::string& kind) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = fs::directory_iterator(recipes + "/" + kind, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->path().extension() == ".toml") names.push_back(entry->path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace moiety::data
