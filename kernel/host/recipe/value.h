// The tree that a recipe is: values that remember where each of them, and each key, was written.
#ifndef MOIETY_KERNEL_HOST_RECIPE_VALUE_H_
#define MOIETY_KERNEL_HOST_RECIPE_VALUE_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace moiety::host {

/// Where something was written: a source (file or command line argument, see Sources), a line, columns counted from 1 in code
/// points. `source` < 0: written nowhere, it is a default.
struct Place {
  int source = -1;
  int line = 0, column = 0, length = 0;

  bool known() const { return source >= 0; }
};
bool operator<(const Place& a, const Place& b);
bool operator==(const Place& a, const Place& b);

struct Member;

/// One value of a recipe. Tables iterate in key order; `in_written_order` gives the order of the files.
struct Value {
  enum class Type { none, boolean, integer, number, text, array, table };

  Type type = Type::none;
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0;
  std::string text;
  std::vector<Value> items;
  std::map<std::string, Member> members;
  Place place;
  std::string origin;  ///< for a value that was written nowhere: "default of router/avg-k@1"
  std::string
      reference;  ///< the text `${stage.a.b}` that this value replaced: the resolved text keeps it, so arms still follow it

  static Value of(bool value);
  static Value of(std::int64_t value);
  static Value of(double value);
  static Value of(std::string value);
  static Value of(const char* value) { return of(std::string(value)); }
  static Value table();
  static Value array();
  /// From JSON without null members; each leaf says `origin`.
  static Value from_json(const nlohmann::json& json, const std::string& origin);

  bool is(Type wanted) const { return type == wanted; }
  bool is_table() const { return type == Type::table; }
  bool is_text() const { return type == Type::text; }
  /// Nothing when this is no table or has no such member.
  const Value* find(const std::string& key) const;
  Value* find(const std::string& key);
  /// A dotted path split into keys.
  const Value* find_path(const std::vector<std::string>& path) const;
  const Member* find_member(const std::vector<std::string>& path) const;
  Value& set(const std::string& key, Value value, Place key_place = {});
  /// Makes the tables on the way.
  Value& set_path(const std::vector<std::string>& path, Value value);
  std::vector<const std::pair<const std::string, Member>*> in_written_order() const;
  nlohmann::json to_json() const;
};

struct Member {
  Place key;
  Value value;
};

/// "a table", "text", "an integer" …: for messages.
const char* type_name(Value::Type type);

/// The one merge rule of recipes: tables merge by key; values and arrays replace; a table with `use` replaces the whole
/// component; a table without `use` over a component written as its name alone changes that component's parameters.
void merge(Value& base, const Value& patch);

/// Removes what stands at the path; false when nothing stood there.
bool remove_path(Value& base, const std::vector<std::string>& path);

/// "a.b.\"c d\"" → keys. Empty for text that is no dotted key.
std::vector<std::string> split_path(std::string_view text);
std::string join_path(const std::vector<std::string>& path);
/// A key as TOML writes it: bare when it may be, else quoted.
std::string toml_key(const std::string& key);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_VALUE_H_
