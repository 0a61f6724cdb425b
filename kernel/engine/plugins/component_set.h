// The components a worker can use, by kind, name and version, and how one is made from a recipe's text.
//
//   ComponentSet set;
//   if (auto status = set.load("/abs/top_k.moiety.so"); !status) …
//   ConfigProblems problems;
//   auto router = set.make("router", {{"use", "top-k@1"}, {"k", 2}}, "feed_forward.router", problems);
//   if (router) call("bind", *router, [&] { router->as<Router>().bind(site, parameters, bank); });
#ifndef MOIETY_KERNEL_ENGINE_PLUGINS_COMPONENT_SET_H_
#define MOIETY_KERNEL_ENGINE_PLUGINS_COMPONENT_SET_H_

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "kernel/base/result.h"
#include "kernel/engine/plugins/assign.h"
#include "kernel/engine/plugins/guard.h"
#include "kernel/engine/plugins/library.h"
#include "moiety/component.h"

namespace moiety::engine {

/// A component that was made, with its parts. The engine asks check() of, and saves the state() of, every one of the tree; the
/// owner uses its parts.
struct Instance {
  std::shared_ptr<Component> component;
  const char* name = "";  ///< "router/top-k@1", kept for ever: what call() takes
  std::string slot;       ///< of a part: the parameter it fills, "clusterer"
  const ComponentEntry* entry = nullptr;
  const Library* library = nullptr;
  nlohmann::json config;                       ///< as given
  std::map<std::string, double> loss_weights;  ///< of each declared loss: the recipe's, else the declared one
  std::vector<Instance> parts;

  /// The component as its kind: as<Router>(). Throws std::logic_error for another kind.
  template <class Kind>
  Kind& as() const {
    if (std::string_view(entry->kind) != Kind::kind) throw std::logic_error(std::string(name) + " is not a " + Kind::kind);
    return static_cast<Kind&>(*component);
  }
};

template <class Body>
auto call(const char* function, const Instance& instance, Body&& body) -> decltype(body()) {
  return call(function, instance.name, std::forward<Body>(body));
}

/// check() of the instance and, below it, of its parts, as problems with paths.
void check_all(const Instance& instance, const Facts& facts, const std::string& path, ConfigProblems& problems);

/// state() of the instance and its parts; a part's names get "slot." before them. Throws ComponentFailure.
void state_of_all(const Instance& instance, Archive& archive);

class ComponentSet {
 public:
  struct Item {
    const ComponentEntry* entry;
    const Library* library;
  };
  /// Opens a plugin and adds its components. With `build_id`: the file must be that build. The same file twice is once; two files
  /// with the same component are an error that names both.
  Status load(const std::string& file, const std::string& build_id = {});

  /// `use`: "top-k" (the newest) or "top-k@1"; nothing when it is not here.
  std::optional<Item> find(const std::string& kind, const std::string& use) const;
  std::vector<std::string> names(const std::string& kind) const;  ///< "top-k@1", …

  /// `config`: "name", "name@1", or {"use": …, parameters…}. Nothing after adding to `problems`; never throws: a constructor that
  /// throws is a problem too. `path`: where the text stands.
  std::optional<Instance> make(const std::string& kind, const nlohmann::json& config, const std::string& path,
                               ConfigProblems& problems) const;

  /// For read_options() of a stage whose parameters have components: makes parts and appends them to `made`.
  MakePart part_maker(std::vector<Instance>& made) const;

 private:
  std::map<std::tuple<std::string, std::string, int>, Item> items_;
};

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_PLUGINS_COMPONENT_SET_H_
