#include "kernel/host/command/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>

#include "kernel/base/text.h"

namespace moiety::host {
namespace {

namespace po = boost::program_options;

po::options_description describe(const std::vector<OptionSpec>& specs) {
  po::options_description description;
  for (const auto& spec : specs) {
    if (spec.value.empty())
      description.add_options()(spec.name.c_str(), spec.help.c_str());
    else
      description.add_options()(spec.name.c_str(), po::value<std::string>()->value_name(spec.value), spec.help.c_str());
  }
  return description;
}

std::string without_dashes(const std::string& name) { return name.substr(std::min(name.find_first_not_of('-'), name.size())); }

tl::unexpected<Error> unknown(const std::string& given, const std::vector<OptionSpec>& specs) {
  std::vector<std::string> names;
  for (const auto& spec : specs) names.push_back("--" + spec.name);
  const auto typed = given.substr(0, given.find('='));
  return fail(ErrorKind::usage, "unknown option `" + printable(typed) + "`", did_you_mean("--" + without_dashes(typed), names));
}

}  // namespace

bool Arguments::has(const std::string& name) const {
  return std::any_of(options_.begin(), options_.end(), [&](const auto& option) { return option.first == name; });
}

std::string Arguments::value(const std::string& name) const {
  const auto all = values(name);
  return all.empty() ? "" : all.back();
}

std::vector<std::string> Arguments::values(const std::string& name) const {
  std::vector<std::string> found;
  for (const auto& [key, text] : options_) {
    if (key == name) found.push_back(text);
  }
  return found;
}

Result<int> Arguments::number(const std::string& name, int fallback, int least) const {
  if (!has(name)) return fallback;
  const auto text = value(name);
  int parsed = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (problem == std::errc() && end == text.data() + text.size() && parsed >= least) return parsed;
  return fail(ErrorKind::usage, fmt::format("--{} takes a whole number of at least {}, not `{}`", name, least, printable(text)));
}

Result<Arguments> Arguments::parse(const std::vector<std::string>& given, const std::vector<OptionSpec>& specs,
                                   std::size_t least_words, std::size_t most_words) {
  Arguments arguments;
  const auto description = describe(specs);
  // Boost takes what it does not know for words when there is a positional option of unlimited length: words are collected under
  // a name no one can type.
  po::options_description whole;
  whole.add(description).add_options()(" words", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add(" words", -1);
  const int style =
      po::command_line_style::unix_style & ~po::command_line_style::allow_guessing & ~po::command_line_style::allow_short;
  try {
    // The two short forms that there are.
    auto words = given;
    for (auto& word : words) {
      if (word == "-h") word = "--help";
      const bool verbose = std::any_of(specs.begin(), specs.end(), [](const auto& spec) { return spec.name == "verbose"; });
      if (word == "-v" && verbose) word = "--verbose";
    }
    for (const auto& option : po::command_line_parser(words).options(whole).positional(positional).style(style).run().options) {
      if (option.string_key == " words" || option.position_key >= 0) {
        for (const auto& word : option.value) {
          if (word.size() > 1 && word[0] == '-' && word[1] != ' ' && word.find_first_of(" \n") == std::string::npos)
            return unknown(word, specs);
          arguments.words_.push_back(word);
        }
      } else {
        arguments.options_.emplace_back(option.string_key, option.value.empty() ? "" : option.value.front());
      }
    }
  } catch (const po::unknown_option& problem) {
    return unknown(problem.get_option_name(), specs);
  } catch (const po::error_with_option_name& problem) {
    const auto name = without_dashes(problem.get_option_name());
    const auto spec = std::find_if(specs.begin(), specs.end(), [&](const auto& one) { return one.name == name; });
    if (spec != specs.end() && !spec->value.empty())
      return fail(ErrorKind::usage, "--" + name + " needs a value: --" + name + " " + spec->value);
    return fail(ErrorKind::usage, printable(problem.what()));
  } catch (const po::error& problem) {
    return fail(ErrorKind::usage, printable(problem.what()));
  }
  for (const auto& spec : specs) {
    if (!spec.repeat && arguments.values(spec.name).size() > 1)
      return fail(ErrorKind::usage, "--" + spec.name + " is given twice");
  }
  if (arguments.has("help")) return arguments;
  if (arguments.words_.size() < least_words) return fail(ErrorKind::usage, "something is missing");
  if (arguments.words_.size() > most_words)
    return fail(ErrorKind::usage, "one argument too many: `" + printable(arguments.words_[most_words]) + "`");
  return arguments;
}

std::string options_help(const std::vector<OptionSpec>& specs) {
  std::size_t widest = 0;
  const auto head = [](const OptionSpec& spec) { return "--" + spec.name + (spec.value.empty() ? "" : " " + spec.value); };
  for (const auto& spec : specs) widest = std::max(widest, head(spec).size());
  std::string text;
  for (const auto& spec : specs) text += fmt::format("  {:<{}}  {}\n", head(spec), widest, spec.help);
  return text;
}

}  // namespace moiety::host
