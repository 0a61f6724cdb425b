// The command line of one subcommand: declared options, strict parsing, help. A thin layer over Boost.Program_options, which
// keeps no order between options and knows no near names.
#ifndef MOIETY_KERNEL_HOST_COMMAND_ARGUMENTS_H_
#define MOIETY_KERNEL_HOST_COMMAND_ARGUMENTS_H_

#include <string>
#include <utility>
#include <vector>

#include "kernel/base/result.h"

namespace moiety::host {

struct OptionSpec {
  std::string name;   ///< "store" for --store
  std::string value;  ///< what stands for its value in the help: "DIR"; empty: a flag
  std::string help;
  bool repeat = false;
};

class Arguments {
 public:
  bool has(const std::string& name) const;
  /// The last one given; empty when none was.
  std::string value(const std::string& name) const;
  std::vector<std::string> values(const std::string& name) const;
  /// As typed: (name, value), flags with an empty value.
  const std::vector<std::pair<std::string, std::string>>& in_order() const { return options_; }
  const std::vector<std::string>& words() const { return words_; }
  /// A whole number of at least `least`. Error: usage.
  Result<int> number(const std::string& name, int fallback, int least) const;

  /// Errors (usage): an unknown option (with near names), a missing or doubled value, too few or many words.
  static Result<Arguments> parse(const std::vector<std::string>& given, const std::vector<OptionSpec>& specs,
                                 std::size_t least_words, std::size_t most_words);

 private:
  std::vector<std::pair<std::string, std::string>> options_;
  std::vector<std::string> words_;
};

/// The options, one a line, for a help text.
std::string options_help(const std::vector<OptionSpec>& specs);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_COMMAND_ARGUMENTS_H_
