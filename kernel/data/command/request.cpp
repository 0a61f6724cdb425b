#include <fmt/format.h>

#include "kernel/base/text.h"
#include "kernel/data/command/prepare.h"
#include "kernel/data/corpus/tokenizer.h"

namespace moiety::data {
using nlohmann::json;
namespace {

tl::unexpected<Error> wrong(const std::string& what) { return fail(ErrorKind::usage, "the request is wrong: " + what); }

Status only_keys(const json& object, const std::string& where, const std::vector<std::string>& keys) {
  if (!object.is_object()) return wrong(fmt::format("{} must be an object", where));
  for (const auto& [key, value] : object.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      return wrong(fmt::format("unknown key `{}` in {}; its keys are {}", printable(key), where, join(keys, ", ")));
  }
  return {};
}

Result<std::vector<std::string>> texts(const json& list, const std::string& where) {
  std::vector<std::string> out;
  if (!list.is_array()) return wrong(where + " must be a list of texts");
  for (const auto& item : list) {
    if (!item.is_string()) return wrong(where + " must be a list of texts");
    out.push_back(item);
  }
  return out;
}

}  // namespace

Result<Request> parse_request(std::string_view text) {
  const json request = json::parse(text, nullptr, false);
  if (request.is_discarded()) return wrong("it is no JSON");
  if (auto status = only_keys(request, "the request", {"corpus", "tasks"}); !status) return pass(status);
  if (!request.contains("corpus")) return wrong("the key `corpus` is missing");
  const json& corpus = request["corpus"];
  if (auto status = only_keys(corpus, "corpus", {"use", "without", "tokenizer"}); !status) return pass(status);
  const json tokenizer = corpus.value("tokenizer", json::object());
  if (auto status = only_keys(tokenizer, "corpus.tokenizer", {"use", "vocabulary"}); !status) return pass(status);
  if (!corpus.value("use", json()).is_string()) return wrong("corpus.use must be the name of a corpus");
  if (!tokenizer.value("vocabulary", json()).is_number_integer())
    return wrong("corpus.tokenizer.vocabulary must be a whole number");
  const json kind = tokenizer.value("use", json("sentencepiece"));
  if (kind != "sentencepiece")
    return wrong(fmt::format("corpus.tokenizer.use is {}; there is `sentencepiece`", printable(kind.dump())));
  const auto vocabulary = tokenizer["vocabulary"].get<long long>();
  if (vocabulary < kSmallestVocabulary || vocabulary > kLargestVocabulary)
    return wrong(fmt::format("corpus.tokenizer.vocabulary is {}; it may lie from {} to {}", vocabulary, kSmallestVocabulary,
                             kLargestVocabulary));
  auto without = texts(corpus.value("without", json::array()), "corpus.without");
  if (!without) return pass(without);
  auto tasks = texts(request.value("tasks", json::array()), "tasks");
  if (!tasks) return pass(tasks);
  return Request{corpus["use"], std::move(*without), static_cast<int>(vocabulary), std::move(*tasks)};
}

}  // namespace moiety::data
