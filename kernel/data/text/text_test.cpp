#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "kernel/data/text/clean.h"
#include "kernel/data/text/entities.h"
#include "kernel/data/text/unicode.h"

namespace moiety::data {
namespace {

using testing::ElementsAre;

TEST(Unicode, what_is_no_utf8_is_told_apart) {
  EXPECT_TRUE(is_utf8("naïve 🦉 \n"));
  for (const char* bad :
       {"\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80", "\x80", "a\xC3", "\xF0\x9F\x99"})
    EXPECT_FALSE(is_utf8(bad));
}

TEST(Unicode, code_points_written_read_back) {
  for (const char32_t c : {U'a', U'\u00E9', U'\u20AC', U'\U0001F989', char32_t{0x10FFFF}}) {
    std::string text;
    append_code_point(text, c);
    std::size_t position = 0;
    EXPECT_EQ(next_code_point(text, position), c);
    EXPECT_EQ(position, text.size());
  }
}

TEST(Unicode, bytes_of_unknown_encoding_become_utf8) {
  EXPECT_EQ(to_utf8("déjà vu"), "déjà vu");
  EXPECT_EQ(to_utf8("d\xE9j\xE0 vu"), "déjà vu");
  EXPECT_EQ(to_utf8("déjà \xFF vu"), "déjà  vu");
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random() % 40, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    EXPECT_TRUE(is_utf8(to_utf8(bytes)));
    EXPECT_TRUE(is_utf8(normalise(bytes)));
  }
}

TEST(Unicode, prefixes_end_between_characters) {
  EXPECT_EQ(prefix("aé", 2), "a");
  EXPECT_EQ(prefix("aé", 3), "aé");
  EXPECT_EQ(prefix("🦉", 3), "");
}

TEST(Unicode, letters_are_counted_in_any_script) {
  EXPECT_TRUE(is_letter(U'z') && is_letter(U'é') && is_letter(U'ж') && is_letter(U'語'));
  EXPECT_FALSE(is_letter(U'7') || is_letter(U'_') || is_letter(U'→') || is_letter(U'×') || is_letter(U'。') ||
               is_letter(0x1F989));
}

TEST(Clean, typography_becomes_plain_and_what_a_tokenizer_loses_goes) {
  EXPECT_EQ(normalise("“so” ‘it’s’ 1–2—3…"), "\"so\" 'it's' 1-2 - 3...");
  EXPECT_EQ(normalise("a\u2581b\uFEFFc\u200Bd\u00ADe\uFFFDf"), "abcdef");
  EXPECT_EQ(normalise("a\tb\r\nc\x01\x7F"), "a    b\nc");
  EXPECT_EQ(normalise(std::string("a\0b", 3)), "ab");
  EXPECT_EQ(normalise("owl 🦉 stays"), "owl 🦉 stays");
  EXPECT_EQ(normalise("bad \xFF\xC3 bytes"), "bad  bytes");
}

TEST(Clean, at_most_one_blank_line_and_no_space_at_line_ends) {
  EXPECT_EQ(normalise("\n\n  a  \n\n \n\t\nb \n\n"), "  a\n\nb");
  EXPECT_EQ(normalise(" \n \n"), "");
}

TEST(Clean, cleaning_twice_changes_nothing) {
  for (const char* text : {"“a”\t—b…\n\n\n\nc ", "x\u2014\u2014y", "  code\n    more\n"})
    EXPECT_EQ(normalise(normalise(text)), normalise(text));
}

TEST(Clean, prose_is_unwrapped) {
  const std::string wrapped =
      "The lighthouse keeper wrote down every ship that went\nby in the night, and in the morning he read the list to\nhis cat.";
  EXPECT_EQ(
      unwrap(wrapped),
      "The lighthouse keeper wrote down every ship that went by in the night, and in the morning he read the list to his cat.");
}

TEST(Clean, tables_code_and_verse_keep_their_lines) {
  for (const char* text :
       {"short\nlines\nof verse",
        "| a table with a fairly long line of its own, yes | it is |\n| another fairly long line of the table, right here |",
        "$ program --with a long list of options that is --wrapped \\\n    and goes on in the next line of the shell, you see"})
    EXPECT_EQ(unwrap(text), text);
}

TEST(Clean, list_items_start_their_own_line) {
  EXPECT_EQ(unwrap("These are the things that the traveller had in her bag:\n- a lamp that had never been lit since it was made "
                   "there\n  by her aunt"),
            "These are the things that the traveller had in her bag:\n- a lamp that had never been lit since it was made there "
            "by her aunt");
}

TEST(Clean, blocks_and_lines) {
  EXPECT_THAT(split_blocks("\n\na\nb\n  \n c\n"), ElementsAre("a\nb", " c"));
  EXPECT_THAT(split_blocks(""), ElementsAre());
  EXPECT_THAT(split_lines("a\n\nb"), ElementsAre("a", "", "b"));
  EXPECT_EQ(one_line(" a \n\n b\tc "), "a b c");
}

TEST(Entities, named_and_numbered_references_are_decoded) {
  EXPECT_EQ(decode_entities("a &amp; b &lt;c&gt; &eacute;&#233;&#xE9; &quot;"), "a & b <c> ééé \"");
}

TEST(Entities, what_is_no_reference_stays_and_what_is_no_character_goes) {
  EXPECT_EQ(decode_entities("AT&T & &unknown; &#; &#x; &;"), "AT&T & &unknown; &#; &#x; &;");
  EXPECT_EQ(decode_entities("a&#0;&#xD800;&#1114112;&#99999999999999999999;b"), "ab");
  EXPECT_EQ(decode_entities("&" + std::string(1000, 'x') + ";&"), "&" + std::string(1000, 'x') + ";&");
}

}  // namespace
}  // namespace moiety::data
