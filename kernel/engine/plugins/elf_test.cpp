#include "kernel/engine/plugins/elf.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernel/base/files.h"
#include "kernel/engine/plugins/tag.h"
#include "moiety/random.h"

namespace moiety::engine {
namespace {

const std::string good_file = MOIETY_BUILD_LIB "/moiety/mixing_scheduler_proportional.moiety.so";

Result<ElfFacts> read_bytes(const std::string& bytes) {
  return read_elf(bytes.size(), [&](std::uint64_t offset, void* out, std::uint64_t size) {
    // The reader must have checked; a test that it asks for nothing outside.
    if (offset > bytes.size() || size > bytes.size() - offset) {
      ADD_FAILURE() << "asked for bytes outside the file";
      return false;
    }
    std::memcpy(out, bytes.data() + offset, size);
    return true;
  });
}

TEST(Elf, reads_tag_and_build_id_without_opening) {
  const auto facts = read_elf(good_file);
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_TRUE(facts->has_tag);
  EXPECT_EQ(parse_tag(facts->build_tag), own_tag());
  EXPECT_EQ(facts->build_id.size(), 40U);
}

TEST(Elf, P11_library_without_a_tag_is_no_plugin) {
  const auto facts = read_elf(MOIETY_BUILD_LIB "/moiety-bad/no_tag.moiety.so");
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_FALSE(facts->has_tag);
}

TEST(Elf, text_folder_and_missing_file_are_told_apart) {
  EXPECT_EQ(read_elf(MOIETY_BUILD_LIB "/moiety-bad/not_a_library.moiety.so").error().message,
            "not a shared library (no ELF header)");
  EXPECT_EQ(read_elf("/tmp").error().message, "not a regular file");
  EXPECT_EQ(read_elf("/dev/zero").error().message, "not a regular file");
  EXPECT_EQ(read_elf("/no/such/file").error().message, "cannot be read: No such file or directory");
}

TEST(Elf, every_truncation_gives_an_error_or_less_knowledge_never_a_crash) {
  const std::string whole = *read_file(good_file);
  for (std::size_t size = 0; size < whole.size(); size += size < 2000 ? 1 : 37) {
    const auto facts = read_bytes(whole.substr(0, size));
    // The section headers lie at the end, so a cut file cannot have shown a tag.
    EXPECT_FALSE(facts && facts->has_tag) << size;
  }
}

// Damage where it hurts: headers, section and program tables; and anywhere.
TEST(Elf, damaged_bytes_never_make_it_read_outside_or_crash) {
  const std::string whole = *read_file(good_file);
  std::uint64_t sections = 0;
  std::memcpy(&sections, whole.data() + 40, sizeof(sections));
  Random random(11);
  const unsigned char nasty[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
  std::string bytes = whole;
  for (int round = 0; round < 60000; ++round) {
    std::vector<std::size_t> touched;
    for (std::int64_t i = 0, n = 1 + random.below(8); i < n; ++i) {
      std::size_t at = 0;
      switch (random.below(3)) {
        case 0:
          at = static_cast<std::size_t>(random.below(1024));
          break;
        case 1:
          at = static_cast<std::size_t>(sections) +
               static_cast<std::size_t>(random.below(static_cast<std::int64_t>(whole.size() - sections)));
          break;
        default:
          at = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(whole.size())));
      }
      bytes[at] =
          static_cast<char>(random.below(2) == 0 ? nasty[random.below(5)] : static_cast<unsigned char>(random.below(256)));
      touched.push_back(at);
    }
    const auto facts = read_bytes(bytes);
    EXPECT_TRUE(!facts || facts->build_tag.size() <= 64U * 1024U);
    for (const std::size_t at : touched) bytes[at] = whole[at];
  }
}

TEST(Elf, build_id_of_a_loaded_library) {
  EXPECT_EQ(loaded_build_id("libtorch_cpu.so").size(), 40U);
  EXPECT_EQ(loaded_build_id("no_such_library.so"), "");
}

}  // namespace
}  // namespace moiety::engine
