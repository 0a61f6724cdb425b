// Strict reading of a TOML table: every key is asked for once, what nobody asked for is an error with its position.
#ifndef MOIETY_KERNEL_DATA_CORPUS_TOML_READER_H_
#define MOIETY_KERNEL_DATA_CORPUS_TOML_READER_H_

#include <toml++/toml.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace moiety::data {

/// Collects errors as "file:line:column: error: …", one a line.
class TomlErrors {
 public:
  explicit TomlErrors(std::string file) : file_(std::move(file)) {}
  void add(const toml::source_region& place, const std::string& message);
  bool any() const { return !text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  std::string file_;
  std::string text_;
};

/// Reads the keys of one table; a wrong type or a missing required key is added to the errors. The destructor-like `end()`
/// reports the keys that were never asked for.
class TomlReader {
 public:
  TomlReader(const toml::table& table, TomlErrors& errors) : table_(table), errors_(errors) {}

  void text(std::string_view key, std::string& value, bool required = true);
  void texts(std::string_view key, std::vector<std::string>& value, bool required = false);
  /// Between `low` and `high`, both allowed.
  void integer(std::string_view key, long long& value, long long low, long long high, bool required = true);
  void number(std::string_view key, double& value, double low, double high, bool required = true);
  /// nullptr when the key is absent (an error when required) or no table.
  const toml::table* table(std::string_view key, bool required = true);
  /// Tables of an array of tables; empty when absent.
  std::vector<const toml::table*> tables(std::string_view key);
  void end();

 private:
  const toml::node* ask(std::string_view key, bool required);
  void wrong_type(std::string_view key, const toml::node& node, std::string_view wanted);

  const toml::table& table_;
  TomlErrors& errors_;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_CORPUS_TOML_READER_H_
