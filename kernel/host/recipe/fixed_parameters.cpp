#include "kernel/host/recipe/fixed_parameters.h"

namespace moiety::host {
namespace {

ParameterDeclaration parameter(const char* name, const char* type, nlohmann::json fallback) {
  ParameterDeclaration one;
  one.name = name;
  one.type = type;
  one.fallback = std::move(fallback);
  return one;
}

}  // namespace

std::vector<ParameterDeclaration> recipe_parameters() {
  auto seeds = parameter("seeds", "integer", 1);
  seeds.low = 1;
  seeds.high = 10000;
  auto confidence = parameter("confidence", "number", 0.95);
  confidence.low = 0.5;
  confidence.high = 1;
  confidence.low_open = confidence.high_open = true;
  return {parameter("name", "text", nullptr), parameter("about", "text", nullptr), parameter("baseline", "text", nullptr), seeds,
          confidence};
}

std::vector<ParameterDeclaration> corpus_parameters() {
  auto use = parameter("use", "text", nullptr);
  use.required = true;
  use.doc = "the name of a corpus, as in \"debian-8\"";
  auto tokenizer = parameter("tokenizer.use", "choice", "sentencepiece");
  tokenizer.choices = {"sentencepiece"};
  auto vocabulary = parameter("tokenizer.vocabulary", "integer", 4096);
  vocabulary.low = 256;
  vocabulary.high = 65535;
  auto fraction = parameter("fraction", "number", nullptr);
  fraction.unit = "share";
  fraction.low = 0;
  fraction.low_open = true;
  fraction.high = 1;
  return {use, fraction, parameter("without", "texts", nlohmann::json::array()), tokenizer, vocabulary};
}

std::vector<ParameterDeclaration> limits_parameters() {
  return {parameter("call", "text", "10 min"), parameter("memory", "text", "4 GiB")};
}

std::vector<ParameterDeclaration> plugins_parameters() {
  auto path = parameter("path", "texts", nullptr);
  path.required = true;
  path.doc = "folders to search for plugins, relative to this file";
  return {path};
}

}  // namespace moiety::host
