#include "kernel/data/corpus/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include <random>

#include "kernel/base/files.h"
#include "kernel/data/corpus/token_files.h"
#include "kernel/data/text/clean.h"

namespace moiety::data {
namespace {

using testing::HasSubstr;

/// Invented words, enough for a few hundred pieces.
const std::string& invented_text() {
  static const std::string text = [] {
    const std::vector<std::string> syllables = {"mo", "ri", "ta", "lun", "sel", "ka", "vor", "ine", "sha", "del", "pri", "om"};
    std::mt19937 random(3);
    std::string out;
    for (int word = 0; word < 20000; ++word) {
      const auto length = 1 + random() % 3;
      for (std::size_t i = 0; i < length; ++i) out += syllables[random() % syllables.size()];
      out += word % 12 == 11 ? ".\n" : " ";
    }
    return out;
  }();
  return text;
}

const Tokenizer& small_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::train({invented_text()}, 400).value();
  return tokenizer;
}

const std::vector<std::string>& difficult_texts() {
  static const std::vector<std::string> texts = {"",
                                                 " ",
                                                 "  ",
                                                 "   leading and trailing   ",
                                                 "morita\n\n\n  lun\n",
                                                 "\nline first",
                                                 "tab\there\tand \t there",
                                                 "emoji 🦉🦉‍🔥 and é, ж, 語, \U0001F1E9\U0001F1EA",
                                                 "digits 1234567890",
                                                 "<0x0A> </s> <unk> <s> are plain text here",
                                                 "control \x01 and \x7F",
                                                 std::string("zero \0 byte", 11),
                                                 "a" + std::string(3000, 'b') + " c",
                                                 "e\u0301 decomposed"};
  return texts;
}

TEST(Tokenizer, every_text_survives_encoding_and_decoding) {
  for (const auto& text : difficult_texts()) EXPECT_EQ(small_tokenizer().decode(small_tokenizer().encode(text)), text);
  EXPECT_EQ(small_tokenizer().decode(small_tokenizer().encode(invented_text())), invented_text());
}

TEST(Tokenizer, cleaned_text_survives_whatever_it_was) {
  std::mt19937 random(11);
  const std::vector<std::string> parts = {
      "\u2581", "🦉", "\t", "\n", " ", "morita", "\xFF", "\xC3", "é", "\u200B", "\uFFFD", "“", std::string(1, '\0')};
  for (int i = 0; i < 500; ++i) {
    std::string text;
    for (int k = 0; k < 20; ++k) text += parts[random() % parts.size()];
    const std::string clean = normalise(text);
    EXPECT_EQ(small_tokenizer().decode(small_tokenizer().encode(clean)), clean);
  }
}

TEST(Tokenizer, its_tokens_are_those_of_sentencepiece_on_the_whole_text) {
  sentencepiece::SentencePieceProcessor reference;
  ASSERT_TRUE(reference.LoadFromSerializedProto(small_tokenizer().model()).ok());
  auto texts = difficult_texts();
  texts.push_back(invented_text().substr(0, 5000));
  for (const auto& text : texts) {
    const auto ids = reference.EncodeAsIds(text);
    const auto tokens = small_tokenizer().encode(text);
    EXPECT_EQ(std::vector<int>(tokens.begin(), tokens.end()), ids) << text;
    EXPECT_EQ(reference.DecodeIds(ids), text);
  }
}

TEST(Tokenizer, training_twice_gives_the_same_bytes) {
  const auto again = Tokenizer::train({invented_text()}, 400);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->model(), small_tokenizer().model());
  EXPECT_EQ(again->vocabulary(), 400);
}

TEST(Tokenizer, order_and_cutting_of_texts_do_not_matter) {
  const std::string_view text = invented_text();
  const std::size_t middle = text.find('\n', text.size() / 2) + 1;
  const auto other = Tokenizer::train({text.substr(middle), text.substr(0, middle)}, 400);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->model(), small_tokenizer().model());
}

TEST(Tokenizer, the_end_of_a_document_is_no_token_of_a_text) {
  const auto end = small_tokenizer().end_of_document();
  EXPECT_EQ(small_tokenizer().piece(end), "</s>");
  EXPECT_EQ(small_tokenizer().decode({end}), "");
  for (const auto& text : difficult_texts()) EXPECT_THAT(small_tokenizer().encode(text), testing::Not(testing::Contains(end)));
}

TEST(Tokenizer, a_corpus_too_small_for_the_vocabulary_is_a_usage_error_that_says_how_many) {
  const auto tokenizer = Tokenizer::train({"only a few words here, only a few"}, 4096);
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().exit_code(), 2);
  EXPECT_EQ(tokenizer.error().message, "the corpus is too small for a vocabulary of 4096");
  EXPECT_THAT(tokenizer.error().hint, HasSubstr("at most "));
}

TEST(Tokenizer, impossible_sizes_and_no_text_are_errors) {
  EXPECT_FALSE(Tokenizer::train({invented_text()}, 100));
  EXPECT_FALSE(Tokenizer::train({invented_text()}, 70000));
  EXPECT_FALSE(Tokenizer::train({}, 400));
  EXPECT_FALSE(Tokenizer::train({" \n "}, 400));
}

TEST(Tokenizer, damaged_models_are_refused) {
  EXPECT_FALSE(Tokenizer::load(""));
  EXPECT_FALSE(Tokenizer::load("no model"));
}

TEST(TokenFiles, sequences_read_back_as_written) {
  const TemporaryFolder folder;
  TokenSequences sequences;
  sequences.add({1, 2, 65535});
  sequences.add({});
  sequences.add({7});
  ASSERT_TRUE(write_sequences(sequences, folder / "t.u16", folder / "t.u64"));
  const auto read = read_sequences(folder / "t.u16", folder / "t.u64");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->tokens, sequences.tokens);
  EXPECT_EQ(read->size(), 3u);
  EXPECT_EQ(read->sequence(0), (std::vector<std::uint16_t>{1, 2, 65535}));
  EXPECT_TRUE(read->sequence(1).empty());
}

TEST(TokenFiles, the_bytes_are_little_endian) {
  EXPECT_EQ(little_endian(std::vector<std::uint16_t>{0x0102}), std::string("\x02\x01", 2));
  EXPECT_EQ(little_endian(std::vector<std::int32_t>{-2}), std::string("\xFE\xFF\xFF\xFF", 4));
  EXPECT_EQ(little_endian(std::vector<std::uint64_t>{1}), std::string("\x01\0\0\0\0\0\0\0", 8));
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "labels", little_endian(std::vector<std::int32_t>{-2, 44})));
  EXPECT_EQ(read_integers<std::int32_t>(folder / "labels").value(), (std::vector<std::int32_t>{-2, 44}));
}

TEST(TokenFiles, damaged_files_are_refused) {
  const TemporaryFolder folder;
  const auto offsets = [&](const std::vector<std::uint64_t>& values) {
    EXPECT_TRUE(write_file(folder / "o", little_endian(values)));
    return read_sequences(folder / "t", folder / "o").has_value();
  };
  ASSERT_TRUE(write_file(folder / "t", std::string(8, '\0')));
  EXPECT_TRUE(offsets({0, 4}));
  EXPECT_FALSE(offsets({0, 5}));
  EXPECT_FALSE(offsets({1, 4}));
  EXPECT_FALSE(offsets({0, 3, 2, 4}));
  EXPECT_FALSE(offsets({0, 0xFFFFFFFFFFFFFFFFu, 4}));
  EXPECT_FALSE(offsets({}));
  ASSERT_TRUE(write_file(folder / "t", std::string(7, '\0')));
  EXPECT_FALSE(offsets({0, 3}));
}

}  // namespace
}  // namespace moiety::data
