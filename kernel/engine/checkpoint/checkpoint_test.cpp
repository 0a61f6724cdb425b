#include "kernel/engine/checkpoint/checkpoint.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "kernel/base/files.h"
#include "kernel/engine/checkpoint/series.h"
#include "kernel/engine/testing/tensors.h"

namespace moiety::engine {
namespace {

namespace fs = std::filesystem;

Status save(const CheckpointFolder& folder, std::int64_t step) {
  return folder.save(step, 10 * step, {{"w", at::full({3}, static_cast<double>(step))}},
                     {{"first", at::ones({3})}, {"second", at::ones({3})}}, {});
}

TEST(Checkpoint, the_newest_one_is_read) {
  const TemporaryFolder work;
  const CheckpointFolder folder(work.path(), "stage");
  EXPECT_FALSE(folder.load()->checkpoint);
  ASSERT_TRUE(save(folder, 1));
  ASSERT_TRUE(save(folder, 2));
  const auto loaded = folder.load();
  ASSERT_TRUE(loaded && loaded->checkpoint);
  EXPECT_EQ(loaded->checkpoint->step, 2);
  EXPECT_EQ(loaded->checkpoint->series_bytes, 20);
  EXPECT_EQ(loaded->checkpoint->model.at("w")[0].item<double>(), 2);
  ASSERT_TRUE(folder.remove());
  EXPECT_FALSE(folder.load()->checkpoint);
}

TEST(Checkpoint, a_kill_between_the_two_renames_loses_nothing) {
  const TemporaryFolder work;
  const CheckpointFolder folder(work.path(), "stage");
  ASSERT_TRUE(save(folder, 1));
  fs::rename(work / "checkpoint", work / "checkpoint.old");
  fs::create_directory(work / "checkpoint.new");
  const auto loaded = folder.load();
  ASSERT_TRUE(loaded && loaded->checkpoint);
  EXPECT_EQ(loaded->checkpoint->step, 1);
}

TEST(Checkpoint, a_damaged_one_is_set_aside_whatever_is_damaged) {
  for (const char* name : {"model.safetensors", "moments.safetensors", "state.safetensors", "checkpoint.json"}) {
    for (const bool truncated : {false, true}) {
      const TemporaryFolder work;
      const CheckpointFolder folder(work.path(), "stage");
      ASSERT_TRUE(save(folder, 1));
      std::string bytes = *read_file(work / "checkpoint/" + name);
      if (truncated)
        bytes.resize(bytes.size() / 2);
      else
        bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x40);
      ASSERT_TRUE(write_file(work / "checkpoint/" + name, bytes));
      const auto loaded = folder.load();
      ASSERT_TRUE(loaded) << loaded.error().message;
      if (!truncated && loaded->checkpoint) continue;  // white space in the JSON
      EXPECT_FALSE(loaded->checkpoint) << name;
      EXPECT_FALSE(loaded->damage.empty()) << name;
      EXPECT_TRUE(fs::exists(work / "checkpoint.damaged"));
      EXPECT_FALSE(fs::exists(work / "checkpoint"));
    }
  }
}

TEST(Checkpoint, one_of_another_stage_is_set_aside) {
  const TemporaryFolder work;
  ASSERT_TRUE(save(CheckpointFolder(work.path(), "other"), 1));
  const auto loaded = CheckpointFolder(work.path(), "stage").load();
  ASSERT_TRUE(loaded);
  EXPECT_NE(loaded->damage.find("another stage"), std::string::npos);
}

/// Keeps what it was given.
class Recorder final : public registry::MetricWriter {
 public:
  explicit Recorder(std::vector<registry::MetricRow>& rows) : rows_(rows) {}
  void log(const registry::MetricRow& row) override { rows_.push_back(row); }
  Status flush() override { return {}; }

 private:
  std::vector<registry::MetricRow>& rows_;
};

TEST(Series, T09_nan_and_infinities_are_kept) {
  for (const double value : {std::nan(""), HUGE_VAL, -HUGE_VAL, 0.1, 1e-320}) {
    const auto row = parse_series_line(series_line({"loss", {{"domain", "a\"b\n"}}, 7, value}));
    ASSERT_TRUE(row);
    EXPECT_TRUE(row->value == value || (std::isnan(row->value) && std::isnan(value)));
    EXPECT_EQ(row->labels.at("domain"), "a\"b\n");
    EXPECT_EQ(row->step, 7);
  }
}

TEST(Series, a_resumed_one_is_cut_and_what_is_left_is_sent_again) {
  const TemporaryFolder folder;
  std::vector<registry::MetricRow> rows;
  std::int64_t kept = 0;
  {
    auto series = Series::open(folder / "series.jsonl", 0, std::make_unique<Recorder>(rows));
    ASSERT_TRUE(series);
    (*series)->log("loss", 1, 5.5);
    ASSERT_TRUE((*series)->flush());
    kept = (*series)->bytes();
    (*series)->log("loss", 2, 4.5);
    ASSERT_TRUE((*series)->flush());
  }
  EXPECT_EQ(rows.size(), 2U);
  rows.clear();
  {
    auto series = Series::open(folder / "series.jsonl", kept, std::make_unique<Recorder>(rows));
    ASSERT_TRUE(series);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].value, 5.5);
    (*series)->log("loss", 2, 4.25);
    ASSERT_TRUE((*series)->flush());
  }
  EXPECT_EQ(*read_file(folder / "series.jsonl"),
            series_line({"loss", {}, 1, 5.5}) + "\n" + series_line({"loss", {}, 2, 4.25}) + "\n");
  EXPECT_FALSE(Series::open(folder / "series.jsonl", 100000, std::make_unique<Recorder>(rows)));
}

}  // namespace
}  // namespace moiety::engine
