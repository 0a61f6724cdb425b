#include "kernel/data/corpus/tokenizer.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <unordered_map>
#include <utility>

#include "kernel/base/text.h"
#include "kernel/data/text/clean.h"

namespace moiety::data {
namespace {

/// Feeds the lines of texts to the trainer, which learns from one line at a time.
class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const std::vector<std::string_view>& texts) : texts_(texts) { move_on(); }
  bool done() const override { return done_; }
  void Next() override { move_on(); }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  void move_on() {
    while (rest_.empty()) {
      if (next_ == texts_.size()) {
        done_ = true;
        return;
      }
      rest_ = texts_[next_++];
    }
    const std::size_t end = rest_.find('\n');
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
  }

  const std::vector<std::string_view>& texts_;
  std::size_t next_ = 0;
  std::string_view rest_;
  std::string line_;
  bool done_ = false;
};

constexpr const char* kFatalMessagesOnly = "2";  // the library reports what it does on stderr, unless told so

std::unordered_map<std::string, std::string> training_options(int vocabulary) {
  return {{"model_type", "bpe"},
          {"vocab_size", std::to_string(vocabulary)},
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
};

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Result<Tokenizer> Tokenizer::train(const std::vector<std::string_view>& texts, int vocabulary) {
  if (vocabulary < kSmallestVocabulary || vocabulary > kLargestVocabulary)
    return fail(ErrorKind::usage, fmt::format("a vocabulary of {} is not possible", vocabulary),
                fmt::format("choose corpus.tokenizer.vocabulary from {} to {}", kSmallestVocabulary, kLargestVocabulary));
  Lines lines(texts);
  if (lines.done()) return fail(ErrorKind::failed, "there is no text to learn a tokenizer from");
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
  return Tokenizer(std::move(state));
}

std::vector<std::uint16_t> Tokenizer::encode(std::string_view text) const {
  const auto ids = state_->processor.EncodeAsIds(text);
  return {ids.begin(), ids.end()};
}

std::string Tokenizer::decode(const std::vector<std::uint16_t>& tokens) const {
  return state_->processor.DecodeIds(std::vector<int>(tokens.begin(), tokens.end()));
}

const std::string& Tokenizer::model() const { return state_->model; }
int Tokenizer::vocabulary() const { return state_->processor.GetPieceSize(); }
std::uint16_t Tokenizer::end_of_document() const { return static_cast<std::uint16_t>(state_->processor.eos_id()); }
std::string Tokenizer::piece(std::uint16_t token) const { return token < vocabulary() ? state_->processor.IdToPiece(token) : ""; }

}  // namespace moiety::data
