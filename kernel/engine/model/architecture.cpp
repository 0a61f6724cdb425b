#include "kernel/engine/model/architecture.h"

#include <fmt/format.h>

namespace moiety::engine {

nlohmann::json Architecture::to_json() const {
  return {{"family", family},         {"layers", layers},   {"width", width},
          {"heads", heads},           {"context", context}, {"inner", inner},
          {"vocabulary", vocabulary}, {"classes", classes}, {"item_tokens", item_tokens}};
}

Result<Architecture> Architecture::from_json(const nlohmann::json& json) {
  Architecture a;
  try {
    a.family = json.at("family").get<std::string>();
    a.layers = json.at("layers").get<std::int64_t>();
    a.width = json.at("width").get<std::int64_t>();
    a.heads = json.at("heads").get<std::int64_t>();
    a.context = json.at("context").get<std::int64_t>();
    a.inner = json.at("inner").get<std::int64_t>();
    a.vocabulary = json.at("vocabulary").get<std::int64_t>();
    a.classes = json.value("classes", std::int64_t{0});
    a.item_tokens = json.value("item_tokens", std::int64_t{0});
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorKind::failed, std::string("the model's description is damaged: ") + error.what());
  }
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
  return {};
}

Result<Architecture> architecture_of(const ModelOptions& options, std::int64_t vocabulary) {
  Architecture a;
  a.layers = options.layers;
  a.width = options.width;
  a.heads = options.heads;
  a.context = options.context;
  a.inner = options.inner.value_or(4 * options.width);
  a.vocabulary = vocabulary;
  if (const std::string problem = a.problem(); !problem.empty()) return fail(ErrorKind::usage, problem);
  return a;
}

}  // namespace moiety::engine
