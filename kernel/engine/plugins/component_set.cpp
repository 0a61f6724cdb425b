#include "kernel/engine/plugins/component_set.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

#include "kernel/base/text.h"
#include "moiety/archive.h"

namespace moiety::engine {
namespace {

using nlohmann::json;

std::string full_name(const ComponentEntry& e) { return fmt::format("{}/{}@{}", e.kind, e.name, e.version); }

/// "top-k@1" → ("top-k", 1); without a version 0. Nothing for a version that is none.
std::optional<std::pair<std::string, int>> parse_use(const std::string& use) {
  const auto at = use.find('@');
  if (at == std::string::npos) return std::pair(use, 0);
  int version = 0;
  const char *begin = use.data() + at + 1, *end = use.data() + use.size();
  const auto [stop, error] = std::from_chars(begin, end, version);
  if (error != std::errc() || stop != end || version < 1) return std::nullopt;
  return std::pair(use.substr(0, at), version);
}

/// Weights of the declared losses: the text's `losses` table over the declared ones.
std::map<std::string, double> loss_weights(const ComponentEntry& e, const json& config, const std::string& path,
                                           ConfigProblems& problems) {
  std::map<std::string, double> weights;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < e.output_count; ++i) {
    if (!e.outputs[i].is_loss) continue;
    weights[e.outputs[i].name] = e.outputs[i].weight;
    names.emplace_back(e.outputs[i].name);
  }
  const auto given = config.find("losses");
  if (given == config.end()) return weights;
  if (!given->is_object()) {
    problems.push_back({path + ".losses", "must be a table of weights, such as { balance = 0.01 }"});
    return weights;
  }
  for (const auto& [name, value] : given->items()) {
    const std::string where = path + ".losses." + name;
    if (weights.count(name) == 0) {
      const std::string near = did_you_mean(name, names);
      problems.push_back(
          {where, fmt::format("{} has no loss `{}`{}{}", full_name(e), printable(name), near.empty() ? "" : "; ", near)});
    } else if (!value.is_number() || !(value.get<double>() >= 0)) {
      problems.push_back({where, fmt::format("the weight of a loss must be a number of at least 0, but is {}", value.dump())});
    } else {
      weights[name] = value.get<double>();
    }
  }
  return weights;
}

/// Puts "slot." before the names of a part's state.
class PartArchive final : public Archive {
 public:
  PartArchive(Archive& whole, std::string prefix) : whole_(whole), prefix_(std::move(prefix)) {}
  bool reading() const override { return whole_.reading(); }
  void operator()(std::string_view name, at::Tensor& value) override { whole_(prefix_ + std::string(name), value); }
  void operator()(std::string_view name, std::int64_t& value) override { whole_(prefix_ + std::string(name), value); }
  void operator()(std::string_view name, double& value) override { whole_(prefix_ + std::string(name), value); }
  void operator()(std::string_view name, std::vector<std::int64_t>& value) override {
    whole_(prefix_ + std::string(name), value);
  }
  void operator()(std::string_view name, std::vector<double>& value) override { whole_(prefix_ + std::string(name), value); }

 private:
  Archive& whole_;
  std::string prefix_;
};

}  // namespace

void check_all(const Instance& instance, const Facts& facts, const std::string& path, ConfigProblems& problems) {
  try {
    Problems found;
    call("check", instance, [&] { instance.component->check(facts, found); });
    for (const auto& [parameter, message] : found.list())
      problems.push_back({parameter.empty() ? path : path + "." + parameter, message});
  } catch (const ComponentFailure& e) {
    problems.push_back({path, e.what()});
  }
  for (const Instance& part : instance.parts) check_all(part, facts, path + "." + part.slot, problems);
}

void state_of_all(const Instance& instance, Archive& archive) {
  call("state", instance, [&] { instance.component->state(archive); });
  for (const Instance& part : instance.parts) {
    PartArchive below(archive, part.slot + ".");
    state_of_all(part, below);
  }
}

Status ComponentSet::load(const std::string& file, const std::string& build_id) {
  const auto library = open_library(file);
  if (!library) return pass(library);
  if (!build_id.empty() && (*library)->build_id != build_id) {
    return fail(ErrorKind::failed,
                fmt::format("{}: the plugin was rebuilt since the run was planned (build {} then, {} now)", printable(file),
                            build_id, (*library)->build_id),
                "start the run again: it plans with the new build");
  }
  const PluginDescriptor& d = *(*library)->descriptor;
  std::map<std::tuple<std::string, std::string, int>, Item> added;
  for (std::size_t i = 0; i < d.component_count; ++i) {
    const ComponentEntry& e = d.components[i];
    const auto key = std::tuple(std::string(e.kind), std::string(e.name), e.version);
    if (const auto there = items_.find(key); there != items_.end() && there->second.library != *library) {
      return fail(
          ErrorKind::failed,
          fmt::format("{} is in two plugins: {} and {}", full_name(e), printable(there->second.library->path), printable(file)),
          "leave one of them out, or give one another name or version");
    }
    added.emplace(key, Item{&e, *library});
  }
  items_.insert(added.begin(), added.end());
  return {};
}

std::optional<ComponentSet::Item> ComponentSet::find(const std::string& kind, const std::string& use) const {
  const auto wanted = parse_use(use);
  if (!wanted) return std::nullopt;
  if (wanted->second > 0) {
    const auto found = items_.find(std::tuple(kind, wanted->first, wanted->second));
    return found == items_.end() ? std::nullopt : std::optional<Item>(found->second);
  }
  std::optional<Item> newest;
  for (const auto& [key, item] : items_) {
    if (std::get<0>(key) == kind && std::get<1>(key) == wanted->first) newest = item;  // versions ascend in the map
  }
  return newest;
}

std::vector<std::string> ComponentSet::names(const std::string& kind) const {
  std::vector<std::string> list;
  for (const auto& [key, item] : items_) {
    if (std::get<0>(key) == kind) list.push_back(fmt::format("{}@{}", std::get<1>(key), std::get<2>(key)));
  }
  return list;
}

std::optional<Instance> ComponentSet::make(const std::string& kind, const json& config, const std::string& path,
                                           ConfigProblems& problems) const {
  const std::size_t before = problems.size();
  const json table = config.is_string() ? json{{"use", config}} : config;
  const auto use = table.is_object() ? table.find("use") : table.end();
  if (!table.is_object() || use == table.end() || !use->is_string()) {
    problems.push_back({path, fmt::format("a {} is written as \"name\" or {{ use = \"name\", … }}", kind)});
    return std::nullopt;
  }
  const auto item = find(kind, use->get<std::string>());
  if (!item) {
    const auto known = names(kind);
    std::vector<std::string> bare = known;
    for (std::string& name : bare) name.resize(name.find('@'));
    const std::string near = did_you_mean(split(use->get<std::string>(), '@')[0], bare);
    problems.push_back({path, fmt::format("no {} `{}` is loaded{}{}; there {}: {}", kind, printable(use->get<std::string>()),
                                          near.empty() ? "" : "; ", near, known.size() == 1 ? "is" : "are",
                                          known.empty() ? "none" : join(known, ", "))});
    return std::nullopt;
  }
  const ComponentEntry& e = *item->entry;
  Instance instance;
  instance.entry = &e;
  instance.library = item->library;
  instance.name = kept_text(full_name(e));
  instance.config = table;
  instance.loss_weights = loss_weights(e, table, path, problems);
  unknown_keys(e.parameters, e.parameter_count, table, path, {"use", "losses"}, problems);
  std::vector<Value> values;
  if (!assign(e.parameters, e.parameter_count, table, path, part_maker(instance.parts), values, problems)) return std::nullopt;
  if (problems.size() != before) return std::nullopt;
  try {
    instance.component.reset(call("make", instance.name, [&] { return e.make(values.data()); }));
  } catch (const ComponentFailure& failure) {
    problems.push_back({path, failure.what()});
    return std::nullopt;
  }
  if (!instance.component) {
    problems.push_back({path, fmt::format("{}: make: gave nothing", instance.name)});
    return std::nullopt;
  }
  return instance;
}

MakePart ComponentSet::part_maker(std::vector<Instance>& made) const {
  return [this, &made](const Parameter& parameter, const json& config, const std::string& path,
                       ConfigProblems& problems) -> std::shared_ptr<Component> {
    auto instance = make(parameter.kind, config, path, problems);
    if (!instance) return nullptr;
    instance->slot = parameter.name;
    made.push_back(*std::move(instance));
    return made.back().component;
  };
}

}  // namespace moiety::engine
