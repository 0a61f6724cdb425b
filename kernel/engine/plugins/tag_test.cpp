#include "kernel/engine/plugins/tag.h"

#include <gtest/gtest.h>

#include "kernel/engine/plugins/elf.h"
#include "moiety/build_tag.h"

namespace moiety::engine {
namespace {

TEST(Tag, P06_only_differing_rows_are_told_with_both_sides) {
  const BuildTag plugin = parse_tag("compiler=g++ 12\nstandard=202002L\nsdk=" + std::string(64, 'a') + "\nextra=1\n");
  const BuildTag worker = parse_tag("compiler=g++ 12\nstandard=201703L\nsdk=" + std::string(64, 'b') + "\nlibtorch=1.13\n");
  EXPECT_EQ(difference_text(tag_differences(plugin, worker)),
            "standard: plugin 202002L, worker 201703L; sdk: plugin aaaaaaaaaaaa…, worker bbbbbbbbbbbb…; "
            "libtorch: plugin (not given), worker 1.13; extra: plugin 1, worker (not given)");
  EXPECT_TRUE(tag_differences(worker, worker).empty());
}

TEST(Tag, hashes_that_begin_alike_are_told_whole) {
  const std::string common(20, 'a'), a = common + std::string(44, '1'), b = common + std::string(44, '2');
  EXPECT_EQ(difference_text({{"sdk", a, b}}), "sdk: plugin " + a + ", worker " + b);
}

TEST(Tag, text_from_a_file_cannot_steer_a_terminal) {
  const BuildTag tag = parse_tag("comp\x1b[2Jiler=g++\x07\n=\nno equals sign\n");
  for (const auto& [field, value] : tag) EXPECT_EQ((field + value).find_first_of("\x1b\x07"), std::string::npos);
  EXPECT_EQ(tag.size(), 3U);
}

TEST(Tag, P06_names_the_libtorch_that_runs) {
  for (const auto& [field, value] : own_tag()) {
    if (field == "libtorch_build_id") {
      EXPECT_EQ(value, loaded_build_id("libtorch_cpu.so"));
      EXPECT_EQ(value, MOIETY_TORCH_BUILD_ID) << "compiled against another LibTorch than the one that runs";
      return;
    }
  }
  FAIL() << "no libtorch_build_id";
}

}  // namespace
}  // namespace moiety::engine
