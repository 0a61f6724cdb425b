// The formats of one small file each: code, fortune, info, wordnet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/data/testing/fixtures.h"

namespace moiety::data {
namespace {

using testing::ElementsAre;

TEST(Code, a_file_is_one_entry_with_its_layout) {
  const std::string source = "def hoot(times):\n    return 'hoo' * times\n\n\nprint(hoot(3))\n";
  EXPECT_THAT(texts_of(kCode.extract("a.py", {{"a.py", source}})), ElementsAre(source));
  EXPECT_TRUE(kCode.keeps_layout);
  expect_survives_damage(kCode, "a.py.gz", {{"a.py.gz", gzip_file(source)}});
}

TEST(Fortune, texts_between_percent_lines) {
  EXPECT_THAT(
      texts_of(kFortune.extract("owls", {{"owls", "An owl a day.\n\t\t-- Anon\n%\n%\nTwo\nlines, 100% of them\n%%\nlast"}})),
      ElementsAre("An owl a day.\n\t\t-- Anon\n", "Two\nlines, 100% of them\n", "last\n"));
}

TEST(Fortune, overstruck_characters_go) {
  EXPECT_THAT(texts_of(kFortune.extract("o", {{"o", "_\bb_\bo_\bl_\bd \xC3\xA9\b\b\b\b\b\b\b\b\b"}})), ElementsAre("\n"));
  EXPECT_THAT(texts_of(kFortune.extract("o", {{"o", "x\xC3\xA9\bowl"}})), ElementsAre("xowl\n"));
  expect_survives_damage(kFortune, "o", {{"o", "a\b\n%\nb\n"}});
}

const char* const kManual =
    "This is owls.info, produced by hand.\n\x1f\nFile: owls.info,  Node: Top,  Next: Flight\n\nOwls\n****\n\nA manual. *Note "
    "Flight:: for more.\n\n"
    "* Menu:\n\n* Flight::   how they fly\n\x1f\nFile: owls.info,  Node: Flight,  Prev: Top\n\n1 Flight\n========\n\nOwls fly at "
    "night (*note Night::), as *note Day:: "
    "says; see *note the list: List.\n* a star that is text\n\x1f\nFile: owls.info,  Node: Concept Index\n\nIndex\n\n* wing: "
    "Flight. 3\n\x1f\nTag Table:\nNode: Top\n\x1f\n";

TEST(Info, nodes_lose_headers_menus_indices_and_underlines) {
  EXPECT_THAT(texts_of(kInfo.extract("owls.info", {{"owls.info", kManual}})),
              ElementsAre("Owls\n\nA manual. See Flight for more.",
                          "1 Flight\n\nOwls fly at night (see Night), as Day says; see the list: List.\n* a star that is text"));
}

TEST(Info, damage_is_survived) {
  expect_survives_damage(kInfo, "owls.info", {{"owls.info", kManual}});
  for (const char* text : {"\x1f", "\x1f\nFile: x, Node: a\n*note", "\x1f\nFile: x, Node: a\n*note x", "\x1f\nFile:", "*note"})
    kInfo.extract("i", {{"i", text}});
}

const char* const kSynsets =
    "  1 a licence stands here | with a bar\n"
    "00001740 03 n 02 night_owl 0 Barn(p) 3 001 ~ 00001930 n 0000 | a bird;  \"the owl hoots\"  \n"
    "00001741 29 v 01 hoot 0 000 | to cry like an owl\n";

TEST(Wordnet, synsets_are_words_and_gloss_labelled_by_file_and_grouped_by_first_word) {
  const auto entries = kWordnet.extract("data.noun", {{"data.noun", kSynsets}}).value();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].text, "night owl, Barn: a bird; \"the owl hoots\"");
  EXPECT_THAT(entries[0].labels, ElementsAre("noun.Tops"));
  EXPECT_EQ(entries[0].group, "night owl");
  EXPECT_EQ(entries[1].text, "hoot: to cry like an owl");
  EXPECT_THAT(entries[1].labels, ElementsAre("verb.body"));
}

TEST(Wordnet, malformed_lines_are_passed_over) {
  for (const char* line : {"x | y", "1 45 n 01 a 0 | y", "1 03 n ff a 0 | y", "1 03 n 00 a 0 | y", "1 03 n zz a 0 | y",
                           "1 -3 n 01 a 0 | y", "1 03 n 01  0 | y", " | ", ""})
    EXPECT_THAT(texts_of(kWordnet.extract("d", {{"d", line}})), ElementsAre()) << line;
  expect_survives_damage(kWordnet, "d", {{"d", kSynsets}});
}

TEST(Formats, each_is_found_by_its_name) {
  for (const auto& format : formats()) EXPECT_EQ(find_format(format.name)->extract, format.extract);
  EXPECT_EQ(find_format("pdf"), nullptr);
}

}  // namespace
}  // namespace moiety::data
