#include "kernel/data/corpus/toml_reader.h"

#include <fmt/format.h>

#include "kernel/base/text.h"

namespace moiety::data {

void TomlErrors::add(const toml::source_region& place, const std::string& message) {
  if (!text_.empty()) text_ += '\n';
  text_ += fmt::format("{}:{}:{}: error: {}", file_, place.begin.line, place.begin.column, message);
}

const toml::node* TomlReader::ask(std::string_view key, bool required) {
  asked_.emplace(key);
  const toml::node* node = table_.get(key);
  if (node == nullptr && required) errors_.add(table_.source(), fmt::format("the key `{}` is missing", key));
  return node;
}

void TomlReader::wrong_type(std::string_view key, const toml::node& node, std::string_view wanted) {
  errors_.add(node.source(), fmt::format("`{}` must be {}", key, wanted));
}

void TomlReader::text(std::string_view key, std::string& value, bool required) {
  const auto* node = ask(key, required);
  if (node == nullptr) return;
  if (const auto* found = node->as_string()) {
    value = found->get();
  } else {
    wrong_type(key, *node, "a text");
  }
}

void TomlReader::texts(std::string_view key, std::vector<std::string>& value, bool required) {
  const auto* node = ask(key, required);
  if (node == nullptr) return;
  const auto* list = node->as_array();
  if (list == nullptr) return wrong_type(key, *node, "a list of texts");
  for (const auto& item : *list) {
    if (const auto* found = item.as_string()) {
      value.push_back(found->get());
    } else {
      wrong_type(key, item, "a list of texts");
    }
  }
}

void TomlReader::integer(std::string_view key, long long& value, long long low, long long high, bool required) {
  const auto* node = ask(key, required);
  if (node == nullptr) return;
  const auto* found = node->as_integer();
  if (found == nullptr || found->get() < low || found->get() > high)
    return wrong_type(key, *node, fmt::format("a whole number from {} to {}", low, high));
  value = found->get();
}

void TomlReader::number(std::string_view key, double& value, double low, double high, bool required) {
  const auto* node = ask(key, required);
  if (node == nullptr) return;
  const auto found = node->value<double>();
  if (!node->is_number() || !found || !(*found >= low && *found <= high))
    return wrong_type(key, *node, fmt::format("a number from {} to {}", moiety::number(low), moiety::number(high)));
  value = *found;
}

const toml::table* TomlReader::table(std::string_view key, bool required) {
  const auto* node = ask(key, required);
  if (node == nullptr) return nullptr;
  const auto* found = node->as_table();
  if (found == nullptr) wrong_type(key, *node, "a table");
  return found;
}

std::vector<const toml::table*> TomlReader::tables(std::string_view key) {
  std::vector<const toml::table*> found;
  const auto* node = ask(key, true);
  if (node == nullptr) return found;
  const auto* list = node->as_array();
  if (list == nullptr) {
    wrong_type(key, *node, "an array of tables");
    return found;
  }
  for (const auto& item : *list) {
    if (const auto* one = item.as_table()) {
      found.push_back(one);
    } else {
      wrong_type(key, item, "an array of tables");
    }
  }
  return found;
}

void TomlReader::end() {
  const std::vector<std::string> known(asked_.begin(), asked_.end());
  for (const auto& [key, node] : table_) {
    if (asked_.count(key.str()) > 0) continue;
    const std::string hint = did_you_mean(key.str(), known);
    errors_.add(key.source(), fmt::format("unknown key `{}`{}", printable(key.str()), hint.empty() ? "" : "; " + hint));
  }
}

}  // namespace moiety::data
