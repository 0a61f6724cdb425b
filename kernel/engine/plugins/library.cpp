#include "kernel/engine/plugins/library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <boost/dll/shared_library.hpp>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "kernel/base/text.h"
#include "kernel/engine/plugins/guard.h"
#include "kernel/engine/plugins/tag.h"

namespace moiety::engine {
namespace {

/// Where a loaded library lies in memory. What a descriptor points at must lie there.
class Memory {
 public:
  /// Of the library that holds `address`.
  explicit Memory(const void* address) : address_(reinterpret_cast<std::uintptr_t>(address)) {
    dl_iterate_phdr([](dl_phdr_info* info, std::size_t, void* self) { return static_cast<Memory*>(self)->look_at(*info); }, this);
  }
  bool holds(const void* pointer, std::size_t size) const { return inside(pointer, size, PF_R) > 0; }
  bool holds_code(const void* pointer) const { return inside(pointer, 1, PF_X) > 0; }
  bool holds_text(const char* text) const {
    const std::size_t room = inside(text, 1, PF_R);
    return room > 0 && std::memchr(text, 0, room) != nullptr;
  }

 private:
  struct Segment {
    std::uintptr_t begin, end;
    std::uint32_t flags;
  };
  int look_at(const dl_phdr_info& info) {
    std::vector<Segment> found;
    bool ours = false;
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const auto& p = info.dlpi_phdr[i];
      if (p.p_type != PT_LOAD) continue;
      found.push_back({info.dlpi_addr + p.p_vaddr, info.dlpi_addr + p.p_vaddr + p.p_memsz, p.p_flags});
      ours = ours || (address_ >= found.back().begin && address_ < found.back().end);
    }
    if (ours) segments_ = std::move(found);
    return ours ? 1 : 0;
  }
  /// Bytes from `pointer` to the end of its segment, when at least `size`; else 0.
  std::size_t inside(const void* pointer, std::size_t size, std::uint32_t flag) const {
    const auto at = reinterpret_cast<std::uintptr_t>(pointer);
    for (const Segment& s : segments_) {
      if (at >= s.begin && at < s.end && s.end - at >= size && (s.flags & flag) != 0) return s.end - at;
    }
    return 0;
  }
  std::uintptr_t address_;
  std::vector<Segment> segments_;
};

/// Everything wrong with a descriptor, one text; empty: nothing.
std::string faults_of(const PluginDescriptor& d, const Memory& memory) {
  if (!memory.holds_text(d.name) || !memory.holds_text(d.version) || !memory.holds_text(d.summary)) {
    return "its descriptor is damaged: a text lies outside the library";
  }
  if (d.component_count == 0 || d.component_count > 1000 ||
      !memory.holds(d.components, d.component_count * sizeof(ComponentEntry))) {
    return "its descriptor is damaged: the table of components lies outside the library or is empty";
  }
  std::set<std::string> seen;
  for (std::size_t i = 0; i < d.component_count; ++i) {
    const ComponentEntry& e = d.components[i];
    for (const char* text : {e.kind, e.name, e.summary, e.source}) {
      if (!memory.holds_text(text)) return fmt::format("component {} is damaged: a text lies outside the library", i + 1);
    }
    const std::string name = fmt::format("{}/{}@{}", e.kind, e.name, e.version);
    if (*e.name == '\0' || e.version < 1)
      return fmt::format("component {} ({}) has no name or no version", i + 1, printable(name));
    if (!seen.insert(name).second) return fmt::format("it has {} twice", printable(name));
    if (!memory.holds_code(reinterpret_cast<const void*>(e.make))) return fmt::format("{} has no factory", printable(name));
    if (e.parameter_count > 1000 ||
        (e.parameter_count > 0 && !memory.holds(e.parameters, e.parameter_count * sizeof(Parameter))) || e.output_count > 1000 ||
        (e.output_count > 0 && !memory.holds(e.outputs, e.output_count * sizeof(Output)))) {
      return fmt::format("{} is damaged: a table lies outside the library", printable(name));
    }
    std::set<std::string> names;
    for (std::size_t k = 0; k < e.parameter_count; ++k) {
      const Parameter& p = e.parameters[k];
      for (const char* text : {p.name, p.doc, p.unit, p.kind, p.choices, p.fallback.text}) {
        if (!memory.holds_text(text)) return fmt::format("{} is damaged: parameter {}", printable(name), k + 1);
      }
      if (!memory.holds_code(reinterpret_cast<const void*>(p.set)))
        return fmt::format("{} is damaged: parameter {}", printable(name), k + 1);
      if (!names.insert(p.name).second)
        return fmt::format("{} declares the parameter {} twice", printable(name), printable(p.name));
    }
    for (std::size_t k = 0; k < e.output_count; ++k) {
      const Output& o = e.outputs[k];
      for (const char* text : {o.name, o.unit, o.doc, o.axes, o.when}) {
        if (!memory.holds_text(text)) return fmt::format("{} is damaged: output {}", printable(name), k + 1);
      }
    }
  }
  return {};
}

Result<std::unique_ptr<Library>> open_new(const std::string& path) {
  const auto refuse = [&](const std::string& why, std::string hint = {}) {
    return fail(ErrorKind::failed, fmt::format("{}: {}", printable(path), why), std::move(hint));
  };
  if (path.empty() || path.front() != '/') return refuse("a plugin is opened by its absolute path only");
  const auto facts = read_elf(path);
  if (!facts) return refuse(facts.error().message);
  if (!facts->has_tag) return refuse("not a Moiety plugin: it carries no build tag", "a plugin source ends in MOIETY_PLUGIN(…)");
  if (const auto differences = tag_differences(parse_tag(facts->build_tag), own_tag()); !differences.empty()) {
    return refuse("built differently from this worker (" + difference_text(differences) + ")", rebuild_hint);
  }
  if (facts->build_id.empty())
    return refuse("it has no build id", "link it with -Wl,--build-id=sha1, as moiety_add_plugin() does");

  // Boost has no name for NODELETE. It is what keeps the library mapped when `opened` goes.
  namespace mode_of = boost::dll::load_mode;
  const auto mode = static_cast<mode_of::type>(mode_of::rtld_now | mode_of::rtld_local | RTLD_NODELETE);
  auto library = std::make_unique<Library>();
  try {
    const ComponentScope scope(kept_text(path), "open");
    const boost::dll::shared_library opened(boost::dll::fs::path(path), mode);
    if (!opened.has("moiety_plugin_v1")) {
      return refuse("not a Moiety plugin: it exports no moiety_plugin_v1", "a plugin source ends in MOIETY_PLUGIN(…)");
    }
    library->descriptor = &opened.get<const PluginDescriptor>("moiety_plugin_v1");
  } catch (const std::exception& e) {  // Boost's: what dlopen said
    return refuse(printable(e.what()));
  } catch (...) {
    return refuse("its initialisation threw something that is not a std::exception");
  }
  const PluginDescriptor& d = *library->descriptor;
  const Memory memory(&d);
  if (!memory.holds(&d, 12) || d.magic != plugin_magic)
    return refuse("not a Moiety plugin: its descriptor does not begin as one");
  if (d.major != api_major || d.minor > api_minor) {
    return refuse(fmt::format("made for plugin API {}.{}; this worker has {}.{}", d.major, d.minor, api_major, api_minor),
                  rebuild_hint);
  }
  if (d.struct_size != sizeof(PluginDescriptor) || !memory.holds(&d, sizeof(d))) {
    return refuse(fmt::format("its descriptor has {} bytes; this worker's has {}", d.struct_size, sizeof(PluginDescriptor)),
                  rebuild_hint);
  }
  if (const std::string faults = faults_of(d, memory); !faults.empty()) return refuse(faults);
  library->path = path;
  library->build_id = facts->build_id;
  return library;
}

}  // namespace

Result<const Library*> open_library(const std::string& path) {
  // Neither is ever destroyed: components, graphs and exceptions may outlive everything else, static objects included.
  static auto* const mutex = new std::mutex;
  static auto* const libraries = new std::map<std::string, std::unique_ptr<Library>>;
  const std::lock_guard<std::mutex> lock(*mutex);
  if (const auto found = libraries->find(path); found != libraries->end()) return found->second.get();
  auto opened = open_new(path);
  if (!opened) return pass(opened);
  return ((*libraries)[path] = *std::move(opened)).get();
}

}  // namespace moiety::engine
