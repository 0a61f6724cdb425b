// What a plugin library exports: one data symbol, so that no code runs when it is read, and a build tag in its own ELF section,
// read from the file before anything is opened.
#ifndef MOIETY_PLUGIN_H_
#define MOIETY_PLUGIN_H_

#include <cstddef>
#include <cstdint>

#include "moiety/build_tag.h"
#include "moiety/component.h"

namespace moiety {

inline constexpr std::uint32_t plugin_magic = 0x4D6F6965;     ///< "Moie"
/// Source made for a minor version compiles with every later one of the same major version (README.md, Versions).
inline constexpr std::uint16_t api_major = 1, api_minor = 0;

struct ComponentEntry {
  const char* kind = "";
  const char* name = "";
  int version = 1;
  const char* summary = "";
  const char* source = "";  ///< the paper and section, or empty
  const Parameter* parameters = nullptr;
  std::size_t parameter_count = 0;
  const Output* outputs = nullptr;
  std::size_t output_count = 0;
  /// `values[i]` belongs to `parameters[i]`. May throw.
  Component* (*make)(const Value* values) = nullptr;
};

/// The first four fields stay for ever.
struct PluginDescriptor {
  std::uint32_t magic = plugin_magic;
  std::uint32_t struct_size = 0;
  std::uint16_t major = api_major, minor = api_minor;
  const char* name = "";
  const char* version = "";
  const char* summary = "";
  const ComponentEntry* components = nullptr;
  std::size_t component_count = 0;
};

namespace detail {
template <class T, class = void>
struct OutputsOf {
  static constexpr const Output* data = nullptr;
  static constexpr std::size_t count = 0;
};
template <class T>
struct OutputsOf<T, std::void_t<decltype(T::outputs)>> {
  static constexpr const Output* data = T::outputs;
  static constexpr std::size_t count = sizeof(T::outputs) / sizeof(Output);
};
template <class T, class = void>
struct ParametersOf {
  static constexpr const Parameter* data = nullptr;
  static constexpr std::size_t count = 0;
  static Component* make(const Value*) { return new T(); }
};
template <class T>
struct ParametersOf<T, std::void_t<decltype(T::parameters)>> {
  static constexpr const Parameter* data = T::parameters;
  static constexpr std::size_t count = sizeof(T::parameters) / sizeof(Parameter);
  static Component* make(const Value* values) {
    typename T::Options options{};
    for (std::size_t i = 0; i < count; ++i) T::parameters[i].set(&options, values[i]);
    return new T(options);
  }
};
}  // namespace detail

/// An entry of the plugin's table. T derives from a kind; `T::parameters` with `T::Options`, and `T::outputs`, are optional.
template <class T>
constexpr ComponentEntry component(const char* name, int version, const char* summary, const char* source = "") {
  ComponentEntry entry;
  entry.kind = T::kind;
  entry.name = name;
  entry.version = version;
  entry.summary = summary;
  entry.source = source;
  entry.parameters = detail::ParametersOf<T>::data;
  entry.parameter_count = detail::ParametersOf<T>::count;
  entry.outputs = detail::OutputsOf<T>::data;
  entry.output_count = detail::OutputsOf<T>::count;
  entry.make = &detail::ParametersOf<T>::make;
  return entry;
}

}  // namespace moiety

extern "C" __attribute__((visibility("default"))) const moiety::PluginDescriptor moiety_plugin_v1;

/// Once in a plugin: MOIETY_PLUGIN("name", "1.0.0", "summary", component<A>(…), component<B>(…))
#define MOIETY_PLUGIN(plugin_name, plugin_version, plugin_summary, ...)                                    \
  static constexpr ::moiety::ComponentEntry moiety_components[] = {__VA_ARGS__};                           \
  __attribute__((section(".moiety.build"), used)) static const char moiety_build_tag[] = MOIETY_BUILD_TAG; \
  constexpr ::moiety::PluginDescriptor moiety_plugin_v1 = {::moiety::plugin_magic,                         \
                                                           sizeof(::moiety::PluginDescriptor),             \
                                                           ::moiety::api_major,                            \
                                                           ::moiety::api_minor,                            \
                                                           plugin_name,                                    \
                                                           plugin_version,                                 \
                                                           plugin_summary,                                 \
                                                           moiety_components,                              \
                                                           sizeof(moiety_components) / sizeof(::moiety::ComponentEntry)}

#endif  // MOIETY_PLUGIN_H_
