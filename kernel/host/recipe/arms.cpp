#include "kernel/host/recipe/arms.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "kernel/base/text.h"
#include "kernel/host/recipe/document.h"
#include "kernel/host/recipe/homes.h"

namespace moiety::host {
namespace {

constexpr std::size_t most_arms = 200;

bool declares(const VerbDeclaration& verb, const std::string& key) {
  const auto& keys = stage_keys();
  if (std::find(keys.begin(), keys.end(), key) != keys.end()) return true;
  for (const auto& parameter : verb.parameters) {
    if (parameter.name == key || parameter.name.rfind(key + ".", 0) == 0) return true;
  }
  return std::any_of(verb.inputs.begin(), verb.inputs.end(), [&](const InputDeclaration& input) { return input.name == key; });
}

void collect_places(const Value& value, std::set<Place>& places) {
  places.insert(value.place);
  for (const auto& item : value.items) collect_places(item, places);
  for (const auto& [key, member] : value.members) {
    places.insert(member.key);
    collect_places(member.value, places);
  }
}

}  // namespace

Defaults::Defaults(const Value& root, const Catalog& catalog, Diagnostics& diagnostics) : catalog_(catalog) {
  const auto found = root.members.find("defaults");
  if (found == root.members.end()) return;
  if (!found->second.value.is_table()) {
    diagnostics.error(found->second.key, "[defaults] is a table of tables: [defaults.stage], [defaults.claim] and one a verb");
    return;
  }
  auto names = catalog.verb_names();
  names.insert(names.end(), {"stage", "claim"});
  const Value* stages = root.find("stage");
  for (const auto& [key, member] : found->second.value.members) {
    if (std::find(names.begin(), names.end(), key) == names.end()) {
      diagnostics.error(member.key, fmt::format("unknown verb `{}` in defaults", key), did_you_mean(key, names),
                        "tables: " + join(names, ", "));
    } else if (!member.value.is_table()) {
      diagnostics.error(member.value.place,
                        fmt::format("[defaults.{}] is a table, but this is {}", key, type_name(member.value.type)));
    } else {
      table_.members.insert({key, member});
      if (key == "claim") collect_places(member.value, claim_places_);
      if (key == "stage") {
        for (const auto& [name, inner] : member.value.members) {
          const std::string& inner_name = name;
          if (std::none_of(catalog.verbs.begin(), catalog.verbs.end(),
                           [&](const auto& verb) { return declares(verb, inner_name); })) {
            diagnostics.error(inner.key, fmt::format("unknown key `{}` in defaults.stage: no stage has it", name),
                              did_you_mean(name, stage_keys()));
          }
        }
      } else if (key != "claim" && Document::own(member.key)) {
        const auto does = [&, &verb = key](const auto& stage) {
          const Value* verb_name = stage.second.value.find("do");
          return verb_name != nullptr && verb_name->text == verb;
        };
        if (stages == nullptr || std::none_of(stages->members.begin(), stages->members.end(), does)) {
          diagnostics.error(member.key, fmt::format("[defaults.{}] is used by no stage: none does `{}`", key, key));
        }
      }
    }
  }
}

Value Defaults::stage(const Value& written) const {
  const Value* verb_name = written.find("do");
  const VerbDeclaration* verb = verb_name != nullptr && verb_name->is_text() ? catalog_.verb(verb_name->text) : nullptr;
  if (verb == nullptr || !written.is_table()) return written;
  Value result = Value::table();
  result.place = written.place;
  if (const Value* all = table_.find("stage")) {
    for (const auto& [key, member] : all->members) {
      if (declares(*verb, key)) result.members.insert({key, member});
    }
  }
  if (const Value* own = table_.find(verb->name)) merge(result, *own);
  merge(result, written);
  return result;
}

void Defaults::apply(Value& root) const {
  if (Value* stages = root.find("stage")) {
    for (auto& [name, member] : stages->members) member.value = stage(member.value);
  }
  const Value* own = table_.find("claim");
  Value* claims = root.find("claim");
  if (own != nullptr && claims != nullptr) {
    for (auto& [name, member] : claims->members) {
      if (!member.value.is_table()) continue;
      Value result = *own;
      merge(result, member.value);
      result.place = member.value.place;
      member.value = std::move(result);
    }
  }
  root.members.erase("defaults");
}

namespace {

class Arms {
 public:
  Arms(const Value& root, const Defaults& defaults, Diagnostics& diagnostics)
      : root_(root), defaults_(defaults), diagnostics_(diagnostics) {}

  std::vector<ArmText> read() {
    const auto found = root_.members.find("arm");
    if (found == root_.members.end()) return {main_arm()};
    if (!found->second.value.is_table()) {
      diagnostics_.error(found->second.key, "[arm] is a table of arms");
      return {main_arm()};
    }
    const auto order = found->second.value.in_written_order();
    if (order.empty()) return {main_arm()};
    if (order.size() > most_arms) {
      diagnostics_.error(found->second.key, fmt::format("{} arms; at most {} are possible", order.size(), most_arms));
      return {main_arm()};
    }
    for (const auto* entry : order) names_.push_back(entry->first);
    for (const auto* entry : order) check(entry->first, entry->second);
    for (const auto* entry : order) build(entry->first);
    std::vector<ArmText> arms;
    for (const auto* entry : order) {
      auto built = built_.find(entry->first);
      if (built != built_.end()) arms.push_back(built->second);
    }
    return arms;
  }

 private:
  ArmText main_arm() const {
    const auto stages = root_.members.find("stage");
    return {"main", stages != root_.members.end() ? stages->second.key : Place{}, Value::table(), root_, {}};
  }

  void check(const std::string& name, const Member& member) {
    if (name.empty() || name.size() > 80 || printable(name) != name) {
      diagnostics_.error(member.key, "the name of an arm is printable text of at most 80 bytes");
    }
    if (!member.value.is_table()) {
      diagnostics_.error(member.value.place, fmt::format("arm.{} is a patch of the recipe, a table, but this is {}", name,
                                                         type_name(member.value.type)));
      return;
    }
    static const std::vector<std::string> known = {"extends", "model", "stage", "unset"};
    for (const auto& [key, inner] : member.value.members) {
      if (key == "stage" || key == "model") {
        if (!inner.value.is_table()) {
          diagnostics_.error(inner.value.place, fmt::format("`{}` in arm.{} must be a table, but this is {}", key, name,
                                                            type_name(inner.value.type)));
        }
      } else if (fixed_tables().count(key) != 0 || key == "claim" || key == "defaults" || key == "define" || key == "arm" ||
                 key == "axes" || key == "measure") {
        diagnostics_.error(inner.key, fmt::format("an arm changes `stage` and `model`; `{}` is common to all arms", key));
      } else if (std::find(known.begin(), known.end(), key) == known.end()) {
        diagnostics_.error(inner.key, fmt::format("unknown key `{}` in arm.{}", key, name), did_you_mean(key, known),
                           "an arm is a patch: stage.NAME.key = value");
      }
    }
  }

  const ArmText* build(const std::string& name) {
    const auto known = built_.find(name);
    if (known != built_.end()) return &known->second;
    const Member& member = root_.find("arm")->members.at(name);
    if (!member.value.is_table()) return nullptr;
    ArmText arm{name, member.key, member.value, root_, {}};
    if (const Value* extends = member.value.find("extends")) {
      open_.push_back(name);
      const ArmText* parent = parent_of(name, *extends);
      open_.pop_back();
      if (parent != nullptr) arm.root = parent->root;
    }
    if (const Value* unset = member.value.find("unset")) remove(name, *unset, arm.root);
    for (const char* table : {"stage", "model"}) {
      const Value* patch = member.value.find(table);
      if (patch == nullptr || !patch->is_table()) continue;
      Value* base = arm.root.find(table);
      if (base == nullptr) {
        base = &arm.root.set(table, Value::table(), member.value.members.at(table).key);
        base->place = patch->place;
      }
      if (std::string(table) == "stage") {
        patch_stages(*patch, *base, arm.whole);
      } else {
        merge(*base, *patch);
      }
    }
    return &built_.emplace(name, std::move(arm)).first->second;
  }

  void patch_stages(const Value& patch, Value& stages, std::vector<std::string>& whole) {
    for (const auto& [name, member] : patch.members) {
      const auto found = stages.members.find(name);
      const Value* verb = member.value.find("do");
      const Value* before = found != stages.members.end() ? found->second.value.find("do") : nullptr;
      if (found == stages.members.end() || (verb != nullptr && before != nullptr && verb->text != before->text)) {
        whole.push_back(name);
        stages.members[name] = Member{member.key, defaults_.stage(member.value)};
      } else {
        merge(found->second.value, member.value);
      }
    }
  }

  const ArmText* parent_of(const std::string& name, const Value& extends) {
    if (!extends.is_text()) {
      diagnostics_.error(extends.place,
                         fmt::format("`extends` in arm.{} names one arm, but this is {}", name, type_name(extends.type)));
      return nullptr;
    }
    if (std::find(names_.begin(), names_.end(), extends.text) == names_.end()) {
      diagnostics_.error(extends.place, fmt::format("unknown arm `{}` for `extends` in arm.{}", extends.text, name),
                         did_you_mean(extends.text, names_));
      return nullptr;
    }
    if (std::find(open_.begin(), open_.end(), extends.text) != open_.end()) {
      diagnostics_.error(extends.place,
                         "arms extend each other in a circle: " + join(open_, " extends ") + " extends " + extends.text);
      return nullptr;
    }
    return build(extends.text);
  }

  void remove(const std::string& name, const Value& unset, Value& root) {
    const std::vector<Value> single = {unset};
    for (const Value& item : unset.is(Value::Type::array) ? unset.items : single) {
      const auto path = item.is_text() ? split_path(item.text) : std::vector<std::string>{};
      if (path.empty()) {
        diagnostics_.error(item.place, fmt::format("`unset` in arm.{} lists paths, as in [\"stage.tuned.from\"]", name));
      } else if (path[0] != "stage" && path[0] != "model") {
        diagnostics_.error(
            item.place,
            fmt::format("`unset` in arm.{}: an arm changes `stage` and `model`; `{}` is common to all arms", name, path[0]));
      } else if (!remove_path(root, path)) {
        diagnostics_.error(item.place, fmt::format("`unset` in arm.{}: nothing to remove at {}", name, item.text));
      }
    }
  }

  const Value& root_;
  const Defaults& defaults_;
  Diagnostics& diagnostics_;
  std::vector<std::string> names_, open_;
  std::map<std::string, ArmText> built_;
};

}  // namespace

std::vector<ArmText> read_arms(const Value& root, const Defaults& defaults, Diagnostics& diagnostics) {
  return Arms(root, defaults, diagnostics).read();
}

}  // namespace moiety::host
