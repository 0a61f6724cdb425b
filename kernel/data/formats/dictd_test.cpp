#include "kernel/data/formats/dictd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/data/testing/fixtures.h"

namespace moiety::data {
namespace {

using testing::ElementsAre;

std::string base64_number(std::size_t value) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  do {
    text.insert(text.begin(), digits[value % 64]);
    value /= 64;
  } while (value > 0);
  return text;
}

Files dictionary(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string text;
  std::string index;
  for (const auto& [headword, entry] : entries) {
    index += headword + "\t" + base64_number(text.size()) + "\t" + base64_number(entry.size()) + "\n";
    text += entry;
  }
  return {{"d/x.dict.dz", gzip_file(text)}, {"d/x.index", index}};
}

TEST(Dictd, entries_come_in_the_order_of_the_file_without_those_about_the_database) {
  auto files = dictionary({{"00-database-info", "about this\n"},
                           {"owl", "owl\n  a bird\n"},
                           {"00databaseurl", "somewhere\n"},
                           {"ant", "ant\n  an insect\n"}});
  files["d/x.index"] += "owls\t" + base64_number(11) + "\t" + base64_number(13) + "\n";  // a second headword of the same entry
  EXPECT_THAT(read_dictd("d/x.dict.dz", files).value(), ElementsAre("owl\n  a bird\n", "ant\n  an insect\n"));
}

TEST(Dictd, hostile_index_lines_are_passed_over) {
  auto files = dictionary({{"owl", "owl\n"}});
  files["d/x.index"] = "owl\tA\tE\nbad\nbad\tA\nbad\t!\tA\nbad\tA\t////////\nbad\t/////////////\tA\nbad\tC\tC\n\t\t\n";
  EXPECT_THAT(read_dictd("d/x.dict.dz", files).value(), ElementsAre("owl\n")) << "an overlapping entry would repeat text";
}

TEST(Dict, lines_of_an_entry_are_joined_and_braces_go) {
  const auto files = dictionary({{"owl",
                                  "owl\n\n   <birds> A bird that hunts at night and sleeps in {barns} when\n   the sun is up, as "
                                  "every child in the village knows.\n"}});
  EXPECT_THAT(texts_of(kDict.extract("d/x.dict.dz", files)),
              ElementsAre("owl\n\n<birds> A bird that hunts at night and sleeps in barns when the sun is up, as every child in "
                          "the village knows."));
}

TEST(Dict, damage_is_survived) {
  expect_survives_damage(kDict, "d/x.dict.dz", dictionary({{"owl", "owl\n  a {bird}\n"}, {"ant", "ant\n"}}));
}

std::vector<Entry> gcide(const std::string& entry) { return kGcide.extract("d/x.dict.dz", dictionary({{"w", entry}})).value(); }

TEST(Gcide, pronunciation_tags_and_braces_go) {
  const auto entries =
      gcide("Owlet \\Owl\"et\\ ([ou]l\"[e^]t), n. [OE. oulette.]\n   1. A small {owl}. (?)\n   [1913 Webster +PJC]\n");
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].text, "Owlet, n. [OE. oulette.] 1. A small owl.");
}

TEST(Gcide, an_etymology_is_no_source_tag) {
  EXPECT_EQ(gcide("Long \\Long\\, a. [AS. long, lang.]\n   Not short. [AS]\n")[0].text, "Long, a. [AS. long, lang.] Not short.");
}

TEST(Gcide, fields_of_knowledge_are_labels) {
  const auto entries =
      gcide("Newt \\Newt\\, n. (Zool.)\n   (a) A small animal (see {Eft}) of (Physiol. Chem.) note, (not a label) (Bot).\n");
  EXPECT_THAT(entries[0].labels, ElementsAre("Zool", "Physiol. Chem", "Bot"));
  EXPECT_EQ(entries[0].text.substr(0, 15), "Newt, n. (Zool.");
}

TEST(Gcide, damage_is_survived) {
  expect_survives_damage(kGcide, "d/x.dict.dz",
                         dictionary({{"newt", "Newt \\Newt\\ (n[=u]t), n. (Zool.)\n   A [PJC] {thing}.\n"}}));
  for (const char* entry : {"\\", "\\\\", "[", "[AS", "(", "(Z", "()", ""}) gcide(entry);
}

TEST(Dictd, the_index_belongs_to_the_text) {
  EXPECT_EQ(dictd_main_file("d/x.index"), "d/x.dict.dz");
  EXPECT_EQ(dictd_main_file("d/x.dict.dz"), "d/x.dict.dz");
}

}  // namespace
}  // namespace moiety::data
