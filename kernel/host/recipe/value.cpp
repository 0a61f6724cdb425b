#include "kernel/host/recipe/value.h"

#include <algorithm>
#include <tuple>

#include "kernel/host/recipe/toml_text.h"

namespace moiety::host {

bool operator<(const Place& a, const Place& b) {
  return std::tie(a.source, a.line, a.column) < std::tie(b.source, b.line, b.column);
}
bool operator==(const Place& a, const Place& b) {
  return std::tie(a.source, a.line, a.column) == std::tie(b.source, b.line, b.column);
}

Value Value::of(bool value) {
  Value result;
  result.type = Type::boolean;
  result.boolean = value;
  return result;
}
Value Value::of(std::int64_t value) {
  Value result;
  result.type = Type::integer;
  result.integer = value;
  return result;
}
Value Value::of(double value) {
  Value result;
  result.type = Type::number;
  result.number = value;
  return result;
}
Value Value::of(std::string value) {
  Value result;
  result.type = Type::text;
  result.text = std::move(value);
  return result;
}
Value Value::table() {
  Value result;
  result.type = Type::table;
  return result;
}
Value Value::array() {
  Value result;
  result.type = Type::array;
  return result;
}

Value Value::from_json(const nlohmann::json& json, const std::string& origin) {
  Value result;
  if (json.is_boolean()) {
    result = of(json.get<bool>());
  } else if (json.is_number_integer()) {
    result = of(json.get<std::int64_t>());
  } else if (json.is_number()) {
    result = of(json.get<double>());
  } else if (json.is_string()) {
    result = of(json.get<std::string>());
  } else if (json.is_array()) {
    result = array();
    for (const auto& item : json) result.items.push_back(from_json(item, origin));
  } else if (json.is_object()) {
    result = table();
    for (const auto& [key, item] : json.items()) {
      if (!item.is_null()) result.set(key, from_json(item, origin));
    }
  }
  result.origin = origin;
  return result;
}

const Value* Value::find(const std::string& key) const {
  const auto found = members.find(key);
  return found == members.end() ? nullptr : &found->second.value;
}
Value* Value::find(const std::string& key) {
  const auto found = members.find(key);
  return found == members.end() ? nullptr : &found->second.value;
}

const Value* Value::find_path(const std::vector<std::string>& path) const {
  const Value* value = this;
  for (const auto& key : path) {
    value = value->find(key);
    if (value == nullptr) return nullptr;
  }
  return value;
}

const Member* Value::find_member(const std::vector<std::string>& path) const {
  const Value* value = this;
  const Member* member = nullptr;
  for (const auto& key : path) {
    const auto found = value->members.find(key);
    if (found == value->members.end()) return nullptr;
    member = &found->second;
    value = &member->value;
  }
  return member;
}

Value& Value::set(const std::string& key, Value value, Place key_place) {
  auto& member = members[key];
  member.value = std::move(value);
  member.key = key_place;
  return member.value;
}

Value& Value::set_path(const std::vector<std::string>& path, Value value) {
  Value* at = this;
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    Value* next = at->find(path[i]);
    if (next == nullptr || !next->is_table()) next = &at->set(path[i], table());
    at = next;
  }
  return at->set(path.back(), std::move(value));
}

std::vector<const std::pair<const std::string, Member>*> Value::in_written_order() const {
  std::vector<const std::pair<const std::string, Member>*> order;
  for (const auto& member : members) order.push_back(&member);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->second.key < b->second.key; });
  return order;
}

nlohmann::json Value::to_json() const {
  switch (type) {
    case Type::none:
      return nullptr;
    case Type::boolean:
      return boolean;
    case Type::integer:
      return integer;
    case Type::number:
      return number;
    case Type::text:
      return text;
    case Type::array: {
      auto json = nlohmann::json::array();
      for (const auto& item : items) json.push_back(item.to_json());
      return json;
    }
    case Type::table: {
      auto json = nlohmann::json::object();
      for (const auto& [key, member] : members) json[key] = member.value.to_json();
      return json;
    }
  }
  return nullptr;
}

const char* type_name(Value::Type type) {
  switch (type) {
    case Value::Type::none:
      return "nothing";
    case Value::Type::boolean:
      return "true or false";
    case Value::Type::integer:
      return "an integer";
    case Value::Type::number:
      return "a number";
    case Value::Type::text:
      return "text";
    case Value::Type::array:
      return "a list";
    case Value::Type::table:
      return "a table";
  }
  return "";
}

void merge(Value& base, const Value& patch) {
  if (!patch.is_table() || patch.find("use") != nullptr) {
    base = patch;
    return;
  }
  if (base.is_text() && !patch.members.empty()) {
    Value component = Value::table();
    component.place = base.place;
    const Place key = base.place;
    component.set("use", base, key);
    base = std::move(component);
  }
  if (!base.is_table()) {
    if (!base.is_text()) base = patch;
    return;
  }
  for (const auto& [key, member] : patch.members) {
    const auto found = base.members.find(key);
    if (found == base.members.end()) {
      base.members.emplace(key, member);
    } else {
      merge(found->second.value, member.value);
      // Tables keep the place where they were opened first, so that orders and messages about them stay put.
      if (!member.value.is_table() || member.value.find("use") != nullptr) found->second.key = member.key;
    }
  }
}

bool remove_path(Value& base, const std::vector<std::string>& path) {
  if (path.empty()) return false;
  Value* at = &base;
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    at = at->find(path[i]);
    if (at == nullptr) return false;
  }
  return at->members.erase(path.back()) > 0;
}

std::vector<std::string> split_path(std::string_view text) {
  std::vector<std::string> path;
  std::size_t i = 0;
  const auto space = [&] {
    while (i < text.size() && (text[i] == ' ' || text[i] == '\t')) ++i;
  };
  for (;;) {
    space();
    std::string key;
    if (i < text.size() && (text[i] == '"' || text[i] == '\'')) {
      const char quote = text[i++];
      const std::size_t end = text.find(quote, i);
      if (end == std::string_view::npos) return {};
      key = text.substr(i, end - i);
      i = end + 1;
    } else {
      const std::size_t begin = i;
      while (i < text.size() && is_bare_key(text.substr(i, 1))) ++i;
      key = text.substr(begin, i - begin);
    }
    if (key.empty()) return {};
    path.push_back(std::move(key));
    space();
    if (i == text.size()) return path;
    if (text[i++] != '.') return {};
  }
}

std::string toml_key(const std::string& key) { return is_bare_key(key) ? key : toml_string(key); }

std::string join_path(const std::vector<std::string>& path) {
  std::string text;
  for (const auto& key : path) text += (text.empty() ? "" : ".") + toml_key(key);
  return text;
}

}  // namespace moiety::host
