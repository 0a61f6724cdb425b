#include "kernel/host/recipe/groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/base/text.h"

namespace moiety::host {
namespace {

bool mentions(const nlohmann::json& config, const std::string& name) {
  if (config.is_string()) return config == name;
  if (config.is_object() && config.contains(name)) return true;
  return config.is_structured() &&
         std::any_of(config.begin(), config.end(), [&](const auto& one) { return mentions(one, name); });
}

/// Names of domains: one, or a list of them.
nlohmann::json read_domains(const Value& written, const std::string& path, const Value& groups,
                            const std::vector<std::string>& domains, Diagnostics& diagnostics) {
  auto names = nlohmann::json::array();
  const std::vector<Value> single = {written};
  const auto& items = written.is(Value::Type::array) ? written.items : single;
  if (items.empty()) diagnostics.error(written.place, fmt::format("{} is an empty list", path));
  for (const Value& item : items) {
    if (!item.is_text()) {
      diagnostics.error(item.place, fmt::format("{} is made of domains: their names, or {{ without = […] }}", path));
    } else if (groups.find(item.text) != nullptr) {
      diagnostics.error(item.place, fmt::format("{}: `{}` is a group, and groups are made of domains", path, item.text));
    } else if (std::find(names.begin(), names.end(), item.text) != names.end()) {
      diagnostics.error(item.place, fmt::format("{}: `{}` stands twice", path, item.text));
    } else {
      check_domain(item, path, domains, diagnostics);
      names.push_back(item.text);
    }
  }
  return names;
}

}  // namespace

nlohmann::json read_groups(const Value& groups, const std::vector<std::string>& domains, Diagnostics& diagnostics) {
  auto result = nlohmann::json::object();
  if (!groups.is_table()) {
    diagnostics.error(groups.place, "[corpus.groups] is a table: a name, and the domains that it stands for");
    return result;
  }
  for (const auto& [name, member] : groups.members) {
    const std::string path = "corpus.groups." + toml_key(name);
    if (name.empty() || name.size() > 80 || printable(name) != name) {
      diagnostics.error(member.key, "the name of a group is printable text of at most 80 bytes");
    } else if (std::find(domains.begin(), domains.end(), name) != domains.end()) {
      diagnostics.error(member.key, fmt::format("`{}` is a domain of the corpus, so no group can have that name", name));
    } else if (!member.value.is_table()) {
      result[name] = {{"of", read_domains(member.value, path, groups, domains, diagnostics)}};
    } else {
      for (const auto& [key, inner] : member.value.members) {
        if (key != "without")
          diagnostics.error(inner.key, fmt::format("unknown key `{}` in {}", key, path), did_you_mean(key, {"without"}),
                            "a group is a list of domains, or { without = […] }");
      }
      if (const Value* without = member.value.find("without")) {
        result[name] = {{"without", read_domains(*without, path + ".without", groups, domains, diagnostics)}};
      } else if (member.value.members.empty()) {
        diagnostics.error(member.value.place, fmt::format("{} is a list of domains, or {{ without = […] }}", path));
      }
    }
  }
  return result;
}

nlohmann::json mentioned_groups(const nlohmann::json& groups, const nlohmann::json& config) {
  auto result = nlohmann::json::object();
  for (const auto& [name, group] : groups.items()) {
    if (mentions(config, name)) result[name] = group;
  }
  return result;
}

void check_domain(const Value& name, const std::string& where, const std::vector<std::string>& known, Diagnostics& diagnostics) {
  if (known.empty() || std::find(known.begin(), known.end(), name.text) != known.end()) return;
  diagnostics.error(name.place, fmt::format("unknown domain `{}` in {}", name.text, where), did_you_mean(name.text, known),
                    known.size() <= 24 ? "domains: " + join(known, ", ") : "");
}

}  // namespace moiety::host
