#include "kernel/engine/model/architecture.h"

#include <fmt/format.h>

#include "kernel/engine/plugins/describe.h"

namespace moiety::engine {
namespace {

template <class Choice>
std::string word_of(Choice choice) {
  return words_of_choice(choice_words(choice))[static_cast<std::size_t>(choice)];
}

template <class Choice>
bool read_word(const std::string& word, Choice& choice) {
  const auto words = words_of_choice(choice_words(choice));
  const auto found = std::find(words.begin(), words.end(), word);
  if (found != words.end()) choice = static_cast<Choice>(found - words.begin());
  return found != words.end();
}

}  // namespace

nlohmann::json Architecture::to_json() const {
  return {{"family", family},
          {"layers", layers},
          {"width", width},
          {"heads", heads},
          {"kv_heads", kv_heads},
          {"context", context},
          {"inner", inner},
          {"vocabulary", vocabulary},
          {"activation", word_of(activation)},
          {"position", word_of(position)},
          {"block", word_of(block)},
          {"norm", word_of(norm)},
          {"read_out", word_of(read_out)},
          {"biases", biases},
          {"classes", classes},
          {"item_tokens", item_tokens}};
}

Result<Architecture> Architecture::from_json(const nlohmann::json& json) {
  Architecture a;
  bool known = true;
  try {
    a.family = json.at("family").get<std::string>();
    a.layers = json.at("layers").get<std::int64_t>();
    a.width = json.at("width").get<std::int64_t>();
    a.heads = json.at("heads").get<std::int64_t>();
    a.kv_heads = json.at("kv_heads").get<std::int64_t>();
    a.context = json.at("context").get<std::int64_t>();
    a.inner = json.at("inner").get<std::int64_t>();
    a.vocabulary = json.at("vocabulary").get<std::int64_t>();
    known = read_word(json.at("activation").get<std::string>(), a.activation) &&
            read_word(json.at("position").get<std::string>(), a.position) &&
            read_word(json.at("block").get<std::string>(), a.block) && read_word(json.at("norm").get<std::string>(), a.norm) &&
            read_word(json.at("read_out").get<std::string>(), a.read_out);
    a.biases = json.at("biases").get<bool>();
    a.classes = json.value("classes", std::int64_t{0});
    a.item_tokens = json.value("item_tokens", std::int64_t{0});
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorKind::failed, std::string("the model's description is damaged: ") + error.what());
  }
  if (!known) return fail(ErrorKind::failed, "the model's description has an option that this version does not know");
  if (const std::string problem = a.problem(); !problem.empty()) return fail(ErrorKind::failed, problem);
  return a;
}

std::string Architecture::problem() const {
  if (family != "gpt") return "no model family `" + family + "`";
  const auto out = [](std::int64_t value, std::int64_t limit) { return value < 1 || value > limit; };
  if (out(layers, 1000) || out(width, 100000) || out(heads, 1000) || out(context, 1000000) || out(inner, 1000000) ||
      out(vocabulary, 10000000) || classes < 0 || classes > 1000000 || item_tokens < 0 || item_tokens > 1000000)
    return "a size of the model is out of range";
  if (width % heads != 0) return fmt::format("{} heads do not divide a width of {}", heads, width);
  if (kv_heads < 0 || (kv_heads > 0 && heads % kv_heads != 0))
    return fmt::format("{} heads of keys and values do not divide {} heads", kv_heads, heads);
  if (position == Position::rotary && width / heads % 2 != 0)
    return fmt::format("rotary positions turn pairs of numbers, but a head is {} wide", width / heads);
  return {};
}

Site site_of(const Architecture& a, Place place, std::int64_t layer) {
  Site site;
  site.place = place;
  site.layer = layer;
  site.layers = a.layers;
  site.width = a.width;
  site.inner = a.inner;
  site.heads = a.heads;
  site.kv_heads = a.kv_heads;
  site.rotary = a.position == Position::rotary;
  site.activation = a.activation;
  site.biases = a.biases;
  return site;
}

Result<Architecture> architecture_of(const ModelOptions& options, std::int64_t vocabulary) {
  Architecture a;
  a.layers = options.layers;
  a.width = options.width;
  a.heads = options.heads;
  a.context = options.context;
  a.kv_heads = options.kv_heads.value_or(0);
  a.inner = options.feed_forward_width.value_or(4 * options.width);
  a.activation = options.activation;
  a.position = options.position;
  a.block = options.block;
  a.norm = options.norm;
  a.read_out = options.read_out;
  a.biases = options.biases;
  a.vocabulary = vocabulary;
  if (const std::string problem = a.problem(); !problem.empty()) return fail(ErrorKind::usage, problem);
  return a;
}

}  // namespace moiety::engine
