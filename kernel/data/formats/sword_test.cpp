#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/data/testing/fixtures.h"

namespace moiety::data {
namespace {

using testing::ElementsAre;

struct VersePlace {
  std::uint32_t block, offset, length;
};

/// A module with the given blocks of text; `end` is ".bz" (10-byte verses) or ".cz" (12).
Files module(const std::string& end, const std::vector<std::string>& blocks, const std::vector<VersePlace>& verses) {
  std::string data;
  std::string index;
  for (const auto& block : blocks) {
    const std::string stream = zlib_stream(block);
    index += little(static_cast<std::uint32_t>(data.size())) + little(static_cast<std::uint32_t>(stream.size())) +
             little(static_cast<std::uint32_t>(block.size()));
    data += stream;
  }
  std::string table;
  for (const auto& verse : verses)
    table += little(verse.block) + little(verse.offset) + little(verse.length, end == ".bz" ? 2 : 4);
  return {{"ot" + end + "z", data}, {"ot" + end + "s", index}, {"ot" + end + "v", table}};
}

const Files& small_module() {
  static const Files files = module(
      ".bz", {"In the first hour<note n=\"1\">a remark </note> nobody spoke .<l>They sang</l><l>softly</l>", "A second book."},
      {{0, 0, 0}, {0, 0, 60}, {0, 60, 29}, {0, 0, 60}, {1, 0, 14}});
  return files;
}

TEST(Sword, a_block_is_an_entry_without_notes_and_tags) {
  EXPECT_THAT(texts_of(kSword.extract("ot.bzz", small_module())),
              ElementsAre("In the first hour nobody spoke.\nThey sang\nsoftly\n", "A second book."));
}

TEST(Sword, a_verse_that_stands_in_the_table_twice_is_read_once) {
  const auto files = module(".bz", {"Once."}, {{0, 0, 5}, {0, 0, 5}});
  EXPECT_THAT(texts_of(kSword.extract("ot.bzz", files)), ElementsAre("Once."));
}

TEST(Sword, wide_tables_are_read_by_their_name) {
  const std::string text(70000, 'a');
  const auto files = module(".cz", {text}, {{0, 0, 70000}});
  EXPECT_THAT(texts_of(kSword.extract("ot.czz", files)), ElementsAre(text + "\n\n"));
}

TEST(Sword, verses_outside_their_block_are_passed_over) {
  const auto files = module(".bz", {"short"}, {{0, 3, 60000}, {9, 0, 5}, {0, 4294967295u, 5}, {0, 0, 5}});
  EXPECT_THAT(texts_of(kSword.extract("ot.bzz", files)), ElementsAre("short"));
}

TEST(Sword, an_index_that_points_outside_the_file_is_an_error) {
  auto files = module(".bz", {"text"}, {{0, 0, 4}});
  files["ot.bzs"] = little(1000000) + little(10) + little(4);
  EXPECT_FALSE(kSword.extract("ot.bzz", files));
}

TEST(Sword, an_empty_testament_has_no_entries) {
  EXPECT_THAT(texts_of(kSword.extract("nt.czz", {{"nt.czz", ""}, {"nt.czs", ""}, {"nt.czv", std::string(24, '\0')}})),
              ElementsAre());
}

TEST(Sword, index_files_belong_to_their_data) {
  EXPECT_EQ(kSword.main_file("a/ot.bzs"), "a/ot.bzz");
  EXPECT_EQ(kSword.main_file("a/ot.bzv"), "a/ot.bzz");
  EXPECT_EQ(kSword.main_file("a/readme"), "a/readme");
}

TEST(Sword, damage_is_survived) { expect_survives_damage(kSword, "ot.bzz", small_module()); }

}  // namespace
}  // namespace moiety::data
