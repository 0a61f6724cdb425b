#include "kernel/engine/checkpoint/safetensors.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>

#include "kernel/base/files.h"
#include "kernel/engine/checkpoint/state_archive.h"
#include "kernel/engine/testing/tensors.h"
#include "moiety/random.h"

namespace moiety::engine {
namespace {

std::string file_of(const std::string& header, const std::string& data = {}) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

NamedTensors some_tensors() {
  return {{"b", testing::normal({3, 4}, 1)},
          {"a", testing::normal({2}, 2, at::kDouble)},
          {"n", testing::indices({5}, 100, 3)},
          {"empty", at::empty({0, 3})},
          {"one", at::scalar_tensor(2.5F)}};
}

TEST(Safetensors, what_is_written_is_read) {
  const auto tensors = some_tensors();
  const auto read = parse_safetensors(safetensors_bytes(tensors), "test");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(read->at(name).scalar_type(), tensor.scalar_type());
    EXPECT_TRUE(at::equal(read->at(name), tensor)) << name;
  }
  EXPECT_EQ(safetensors_bytes(tensors), safetensors_bytes(some_tensors()));
}

TEST(Safetensors, other_programs_metadata_is_passed_over) {
  EXPECT_TRUE(parse_safetensors(
      file_of(R"({"__metadata__":{"format":"pt"},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abcd"), "test"));
}

TEST(Safetensors, damaged_files_are_refused) {
  const auto refused = [](const std::string& bytes, const std::string& why) {
    const auto read = parse_safetensors(bytes, "test");
    ASSERT_FALSE(read) << why;
    EXPECT_NE(read.error().message.find(why), std::string::npos) << read.error().message;
  };
  refused("", "shorter than a header");
  refused("abc", "shorter than a header");
  refused(std::string(8, '\xFF'), "longer than 100 MB");
  refused(std::string("\x10\0\0\0\0\0\0\0", 8) + "{}", "longer than the file");
  refused(file_of("not json"), "not JSON");
  refused(file_of("[]"), "not JSON");
  const std::string x = R"("x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})", data(4, 'a');
  EXPECT_TRUE(parse_safetensors(file_of("{" + x + "}", data), "test"));
  refused(file_of("{" + x + "," + x + "}", data), "names something twice");
  refused(file_of(R"({"x":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}})", data), "names something twice");
  refused(file_of("{" + x + "}", data + "a"), "belong to no tensor");
  refused(file_of("{" + x + "}", "aaa"), "past the end");
  refused(file_of(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", data + data), "does not begin");
  refused(file_of("{" + x + R"(,"y":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", data), "does not begin");  // overlap
  refused(file_of("{" + x + R"(,"y":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})", data + data + data),
          "does not begin");  // gap
  refused(file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", data), "do not fit its shape");
  refused(file_of(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", data), "do not fit its shape");
  refused(file_of(R"({"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", data), "no list of sizes");
  refused(file_of(R"({"x":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", data), "no list of sizes");
  refused(file_of(R"({"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})"), "overflows");
  refused(file_of(R"({"x":{"dtype":"F32","shape":[9223372036854775807],"data_offsets":[0,4]}})", data), "overflows");
  refused(file_of(R"({"x":{"dtype":"Q8","shape":[4],"data_offsets":[0,4]}})", data), "does not know");
  refused(file_of(R"({"x":{"dtype":"F32","shape":[1]}})", data), "must have dtype");
  refused(file_of(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1}})", data), "must have dtype");
  refused(file_of(R"({"x":5})", data), "must have dtype");
}

TEST(Safetensors, random_changes_never_do_harm) {
  const std::string whole = safetensors_bytes(some_tensors());
  Random random(11);
  int taken = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = whole;
    for (std::int64_t changes = 1 + random.below(4); changes > 0 && !bytes.empty(); --changes) {
      const auto at = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(std::min<std::size_t>(bytes.size(), 420))));
      switch (random.below(4)) {
        case 0:
          bytes[at] = static_cast<char>(random.below(256));
          break;
        case 1:
          bytes.erase(at, static_cast<std::size_t>(1 + random.below(8)));
          break;
        case 2:
          bytes.insert(at, 1, static_cast<char>(random.below(256)));
          break;
        default:
          bytes[at] = "0123456789{}[]\","[random.below(16)];
          break;
      }
    }
    const auto read = parse_safetensors(bytes, "test");
    if (!read) continue;
    ++taken;
    std::size_t size = 0;
    for (const auto& [name, tensor] : *read) size += static_cast<std::size_t>(tensor.numel()) * tensor.element_size();
    ASSERT_LE(size, bytes.size());
  }
  EXPECT_LT(taken, 20000);
}

TEST(StateArchive, every_value_comes_back_bit_for_bit) {
  StateWriter writer;
  at::Tensor tensor = testing::normal({2, 3}, 1), undefined;
  std::int64_t count = -7;
  double tiny = 5e-324, infinite = std::numeric_limits<double>::infinity();
  std::vector<std::int64_t> counts{1, 2, 3}, none;
  std::vector<double> numbers{0.1, -0.0};
  const auto all = [&](Archive& archive) {
    PrefixedArchive part(archive, "part.");
    part("tensor", tensor);
    part("undefined", undefined);
    archive("count", count);
    archive("tiny", tiny);
    archive("infinite", infinite);
    archive("counts", counts);
    archive("none", none);
    archive("numbers", numbers);
  };
  all(writer);
  const auto kept = tensor.clone();
  const auto bytes = safetensors_bytes(writer.tensors());
  tensor = at::Tensor();
  undefined = at::ones({1});
  count = 0;
  tiny = infinite = 0;
  counts.clear();
  none = {9};
  numbers.clear();
  StateReader reader(*parse_safetensors(bytes, "test"));
  all(reader);
  EXPECT_TRUE(at::equal(tensor, kept));
  EXPECT_FALSE(undefined.defined());
  EXPECT_EQ(count, -7);
  EXPECT_EQ(tiny, 5e-324);
  EXPECT_EQ(infinite, std::numeric_limits<double>::infinity());
  EXPECT_EQ(counts, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_TRUE(none.empty());
  EXPECT_TRUE(std::signbit(numbers.at(1)));
  std::int64_t missing = 0;
  EXPECT_THROW(reader("missing", missing), std::runtime_error);
}

}  // namespace
}  // namespace moiety::engine
