// Corpora and tasks as data: recipes/corpora/NAME.toml and recipes/tasks/NAME.toml.
#ifndef MOIETY_KERNEL_DATA_CORPUS_DESCRIPTION_H_
#define MOIETY_KERNEL_DATA_CORPUS_DESCRIPTION_H_

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/base/result.h"

namespace moiety::data {

/// Text files of one Debian package.
struct Source {
  std::string package;
  std::string format;                       ///< a name of formats()
  std::vector<std::string> files, exclude;  ///< patterns of paths inside the package
  std::vector<std::string> labels;          ///< entries with at least one of these; empty: all
  std::vector<std::string> without_labels;  ///< and with none of these
  double share = 1;                         ///< of the domain's characters at most
  std::string licence;
};

struct Domain {
  std::string name;
  std::string about;
  std::vector<Source> sources;
};

/// Percent of the documents or items.
struct Split {
  int train = 90, valid = 5, test = 5;
};

enum class Part { train, valid, test };
inline constexpr std::array<Part, 3> kParts = {Part::train, Part::valid, Part::test};
std::string_view name_of(Part part);

struct CorpusDescription {
  std::string name;
  int version = 1;
  std::string about;
  double head = 0;      ///< characters of the first domain
  double exponent = 1;  ///< the domain of rank k gets head / k^exponent characters
  std::size_t document_bytes = 8000;
  Split split;
  std::vector<Domain> domains;
  nlohmann::json text;  ///< the whole description, for its identity

  double characters(std::size_t domain) const;
};

struct TaskDescription {
  std::string name;
  int version = 1;
  std::string about;
  std::string kind;           ///< "classification"
  std::size_t longest = 128;  ///< tokens; a longer item is cut there
  std::string salt;           ///< of the hash that splits the groups
  Split split;
  std::vector<std::string> classes;  ///< label i is classes[i]
  Source source;
  nlohmann::json text;
};

/// Reads and checks a description. Every error of the file in one message, each with file, line and column; kind `usage`.
Result<CorpusDescription> parse_corpus(std::string_view toml, const std::string& file);
Result<TaskDescription> parse_task(std::string_view toml, const std::string& file);

/// `use` is "debian-8" or "debian-8@1". Looks in RECIPES/corpora (tasks); an unknown name is a usage error with near names.
Result<CorpusDescription> find_corpus(const std::string& use, const std::string& recipes);
Result<TaskDescription> find_task(const std::string& use, const std::string& recipes);

/// Names of the descriptions in RECIPES/corpora or RECIPES/tasks, sorted.
std::vector<std::string> list_descriptions(const std::string& recipes, const std::string& kind);

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_CORPUS_DESCRIPTION_H_
