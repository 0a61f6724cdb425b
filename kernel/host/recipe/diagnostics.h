// Errors with positions: collected, told all at once, each once.
//
//   recipes/moe.toml:31:29: error: unknown key `capcity_factor` in stage.split.router (router/top-k@1)
//      31 | router = { use = "top-k@1", capcity_factor = 1.25 }
//         |                             ^^^^^^^^^^^^^^
//     did you mean `capacity_factor`?            all keys: moiety plugins info router/top-k
//   1 error in 1 file; nothing was run
#ifndef MOIETY_KERNEL_HOST_RECIPE_DIAGNOSTICS_H_
#define MOIETY_KERNEL_HOST_RECIPE_DIAGNOSTICS_H_

#include <set>
#include <string>
#include <vector>

#include "kernel/base/result.h"
#include "kernel/host/recipe/value.h"

namespace moiety::host {

/// What recipe text came from: files, and arguments of the command line.
struct Source {
  std::string name;  ///< the path as people typed it, or "command line, 2nd --set"
  std::vector<std::string> lines;
  bool file = true;
  Place extended_from;  ///< where the child says `extends`; unknown for the recipe itself
};

constexpr int most_extends = 8;  ///< levels of `extends`

/// The recipe has the index `most_extends`, its parent the one below, and so on; command line arguments follow. So places compare
/// in the order of reading: parents first.
class Sources {
 public:
  Sources() : sources_(most_extends + 1) {}
  void put(int index, std::string name, const std::string& text, Place extended_from);
  int add(std::string name, const std::string& text);
  const Source& operator[](int index) const { return sources_[static_cast<std::size_t>(index)]; }
  int size() const { return static_cast<int>(sources_.size()); }
  /// "recipes/a.toml:3:1", "command line, 2nd --set", or nothing.
  std::string text(const Place& place) const;

 private:
  std::vector<Source> sources_;
};

struct Diagnostic {
  Place place;
  std::string message;
  std::string suggestion;                 ///< "did you mean `a`?"
  std::string reference;                  ///< "all keys: moiety plugins info router/top-k"
  std::vector<std::string> notes;         ///< further lines
  std::string topic;                      ///< errors with equal place and topic are one; empty: the message
  std::vector<std::string> remarks = {};  ///< lines that several errors may share: said once, below all errors
};

class Diagnostics {
 public:
  explicit Diagnostics(const Sources& sources) : sources_(&sources) {}

  void add(Diagnostic diagnostic);
  void error(const Place& place, std::string message, std::string suggestion = {}, std::string reference = {},
             std::vector<std::string> notes = {}) {
    add({place, std::move(message), std::move(suggestion), std::move(reference), std::move(notes), {}});
  }
  /// What stands there could not be read: further errors about it would only confuse.
  void spoil(const Place& place) { spoilt_.insert(place); }
  std::size_t spoilt() const { return spoilt_.size(); }
  bool any() const { return !list_.empty(); }
  std::size_t size() const { return list_.size(); }
  std::size_t told() const { return told_; }  ///< how often an error was told, those that were known already too
  const std::vector<Diagnostic>& list() const { return list_; }
  const Sources& sources() const { return *sources_; }

  /// In the order of the files, with the chain of `extends` that led to each, and the closing line.
  std::string text() const;
  /// The same as an error of kind `usage`.
  tl::unexpected<Error> as_error() const;

 private:
  const Sources* sources_;
  std::vector<Diagnostic> list_;
  std::set<Place> spoilt_;
  std::size_t told_ = 0;
};

/// "1st", "2nd", "3rd", "4th".
std::string ordinal(int n);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_RECIPE_DIAGNOSTICS_H_
