#include "kernel/data/corpus/tokenizer.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "kernel/base/text.h"
#include "kernel/data/text/clean.h"

namespace moiety::data {
namespace {

/// Words with their numbers of occurrences. The trainer would count them itself, word for word as here, but in twice the time.
std::vector<std::string> count_words(const std::vector<std::string_view>& texts) {
  constexpr std::string_view separators = " \n\t";
  std::unordered_map<std::string_view, std::size_t> counts;
  for (auto text : texts) {
    while (!text.empty()) {
      const std::size_t end = text.find_first_of(separators);
      if (end != 0) ++counts[text.substr(0, end)];
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
  }
  std::vector<std::string> lines;
  lines.reserve(counts.size());
  for (const auto& [word, count] : counts) lines.push_back(fmt::format("{}\t{}", word, count));
  std::sort(lines.begin(), lines.end());
  return lines;
}

/// Feeds lines to the trainer.
class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const std::vector<std::string>& lines) : lines_(lines) {}
  bool done() const override { return next_ >= lines_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return lines_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& lines_;
  std::size_t next_ = 0;
};

constexpr const char* kFatalMessagesOnly = "2";  // the library reports what it does on stderr, unless told so

std::unordered_map<std::string, std::string> training_options(int vocabulary) {
  return {{"model_type", "bpe"},
          {"vocab_size", std::to_string(vocabulary)},
          {"input_format", "tsv"},
          {"byte_fallback", "true"},
          {"normalization_rule_name", "identity"},
          {"remove_extra_whitespaces", "false"},
          {"split_digits", "true"},
          {"character_coverage", "0.9995"},
          {"max_sentence_length", "16384"},
          {"num_threads", "1"},
          {"unk_id", "0"},
          {"eos_id", "1"},
          {"bos_id", "-1"},
          {"pad_id", "-1"},
          {"minloglevel", kFatalMessagesOnly}};
}

/// "▁the" → " the", "<0x0A>" → a newline, "</s>" → nothing
std::string bytes_of_piece(const sentencepiece::SentencePieceProcessor& processor, int id) {
  constexpr std::string_view space = "\u2581";
  if (processor.IsControl(id) || processor.IsUnknown(id)) return {};
  std::string piece = processor.IdToPiece(id);
  if (processor.IsByte(id)) return std::string(1, static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16)));
  for (std::size_t at = piece.find(space); at != std::string::npos; at = piece.find(space, at))
    piece.replace(at, space.size(), " ");
  return piece;
}

/// "… Please set it to a value <= 1234." → "1234"
std::string allowed_size(std::string_view message) {
  constexpr std::string_view mark = "<= ";
  const std::size_t at = message.find(mark);
  if (at == std::string_view::npos) return {};
  const auto number = message.substr(at + mark.size());
  return std::string(number.substr(0, number.find_first_not_of("0123456789")));
}

}  // namespace

struct Tokenizer::State {
  std::string model;
  sentencepiece::SentencePieceProcessor processor;
  std::vector<std::string> bytes_of;      ///< what each token stands for
  std::vector<std::uint16_t> lone_space;  ///< tokens of a space before another space
  std::unordered_map<std::string, std::vector<std::uint16_t>> known_words;

  const std::vector<std::uint16_t>& encode_word(std::string_view word);
};

/// Every piece lies within one word (a space and what follows it up to the next), so that words are encoded one by one and
/// remembered: five times as fast as SentencePiece on whole documents, with the same tokens.
const std::vector<std::uint16_t>& Tokenizer::State::encode_word(std::string_view word) {
  constexpr std::size_t most_words = 1 << 20;
  if (word.empty()) return lone_space;
  if (known_words.size() > most_words) known_words.clear();
  const auto [entry, is_new] = known_words.try_emplace(std::string(word));
  if (is_new) {
    const auto ids = processor.EncodeAsIds(entry->first);
    entry->second.assign(ids.begin(), ids.end());
  }
  return entry->second;
}

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Result<Tokenizer> Tokenizer::train(const std::vector<std::string_view>& texts, int vocabulary) {
  if (vocabulary < kSmallestVocabulary || vocabulary > kLargestVocabulary)
    return fail(ErrorKind::usage, fmt::format("a vocabulary of {} is not possible", vocabulary),
                fmt::format("choose corpus.tokenizer.vocabulary from {} to {}", kSmallestVocabulary, kLargestVocabulary));
  const auto words = count_words(texts);
  Lines lines(words);
  if (words.empty()) return fail(ErrorKind::failed, "there is no text to learn a tokenizer from");
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(training_options(vocabulary), &lines, &model);
  if (!status.ok()) {
    const std::string most = allowed_size(status.ToString());
    if (!most.empty())
      return fail(ErrorKind::usage, fmt::format("the corpus is too small for a vocabulary of {}", vocabulary),
                  fmt::format("choose corpus.tokenizer.vocabulary of at most {}", most));
    return fail(ErrorKind::failed, "the tokenizer cannot be learnt: " + printable(status.ToString()));
  }
  return load(model);
}

Result<Tokenizer> Tokenizer::load(std::string_view model) {
  auto state = std::make_unique<State>();
  state->model = model;
  const auto status = state->processor.LoadFromSerializedProto(state->model);
  if (!status.ok()) return fail(ErrorKind::failed, "damaged tokenizer: " + printable(status.ToString()));
  if (state->processor.GetPieceSize() > kLargestVocabulary || state->processor.eos_id() < 0)
    return fail(ErrorKind::failed, "this tokenizer is none of Moiety's");
  for (int id = 0; id < state->processor.GetPieceSize(); ++id) state->bytes_of.push_back(bytes_of_piece(state->processor, id));
  const auto two_spaces = state->processor.EncodeAsIds(" ");
  state->lone_space.assign(two_spaces.begin(), two_spaces.begin() + static_cast<std::ptrdiff_t>(two_spaces.size() / 2));
  return Tokenizer(std::move(state));
}

std::vector<std::uint16_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::uint16_t> tokens;
  if (text.empty()) return tokens;
  for (;;) {
    const std::size_t end = text.find(' ');
    const auto& word = state_->encode_word(text.substr(0, end));
    tokens.insert(tokens.end(), word.begin(), word.end());
    if (end == std::string_view::npos) return tokens;
    text.remove_prefix(end + 1);
  }
}

std::string Tokenizer::decode(const std::vector<std::uint16_t>& tokens) const {
  std::string text;
  for (const auto token : tokens) {
    if (token < state_->bytes_of.size()) text += state_->bytes_of[token];
  }
  if (!text.empty() && text.front() == ' ') text.erase(0, 1);  // the space that encoding puts before the first word
  return text;
}

const std::string& Tokenizer::model() const { return state_->model; }
int Tokenizer::vocabulary() const { return state_->processor.GetPieceSize(); }
std::uint16_t Tokenizer::end_of_document() const { return static_cast<std::uint16_t>(state_->processor.eos_id()); }
std::string Tokenizer::piece(std::uint16_t token) const { return token < vocabulary() ? state_->processor.IdToPiece(token) : ""; }

}  // namespace moiety::data
