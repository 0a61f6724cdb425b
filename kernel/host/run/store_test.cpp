#include "kernel/host/run/store.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "kernel/base/files.h"
#include "kernel/base/hash.h"

namespace moiety::host {
namespace {

namespace fs = std::filesystem;
const std::string kStored(64, 'a');

class StoreTest : public ::testing::Test {
 protected:
  void put(const std::string& manifest, const std::string& model = "12345") {
    fs::create_directories(store_.artifact(kStored));
    ASSERT_TRUE(write_file(store_.artifact(kStored) + "/manifest.json", manifest));
    ASSERT_TRUE(write_file(store_.artifact(kStored) + "/model.safetensors", model));
  }
  std::string manifest(int bytes = 5) {
    return R"({"stage":")" + kStored + R"(","files":{"model.safetensors":{"bytes":)" + std::to_string(bytes) + "}}}";
  }

  TemporaryFolder folder_;
  Store store_{folder_.path()};
};

TEST_F(StoreTest, an_artifact_is_absent_whole_or_damaged) {
  EXPECT_EQ(store_.look_up(kStored).state, StoredStage::State::absent);
  put(manifest());
  EXPECT_EQ(store_.look_up(kStored).state, StoredStage::State::whole);
  put(manifest(), "1234");
  EXPECT_EQ(store_.look_up(kStored).state, StoredStage::State::damaged);
  EXPECT_EQ(store_.look_up(kStored).problem, "model.safetensors has 4 bytes instead of 5");
  fs::remove(store_.artifact(kStored) + "/model.safetensors");
  EXPECT_EQ(store_.look_up(kStored).problem, "model.safetensors is missing");
  for (const char* text : {"", "{", "[]", R"({"stage":"other"})", R"({"stage":5})"}) {
    put(text);
    EXPECT_EQ(store_.look_up(kStored).state, StoredStage::State::damaged) << text;
  }
}

TEST_F(StoreTest, one_without_the_states_that_are_read_of_it_is_lacking) {
  PlannedStage stage;
  stage.id = kStored;
  put(manifest());
  EXPECT_EQ(store_.look_up(stage).state, StoredStage::State::whole);
  stage.snapshots = {"10%", "400k tokens"};
  EXPECT_EQ(store_.look_up(stage).state, StoredStage::State::lacking);
  EXPECT_EQ(store_.look_up(stage).problem, "it lacks the state at 10%, the state at 400k tokens");
  for (const auto& point : stage.snapshots) {
    fs::create_directories(store_.snapshot(kStored, point));
    ASSERT_TRUE(write_file(store_.snapshot(kStored, point) + "/manifest.json", "{\"at\":1}"));
  }
  EXPECT_TRUE(fs::exists(store_.artifact(kStored) + "/snapshots/400k-tokens"));
  EXPECT_EQ(store_.look_up(stage).state, StoredStage::State::whole);
  EXPECT_EQ(store_.manifest(kStored, "10%"), (nlohmann::json{{"at", 1}}));
  EXPECT_EQ(store_.manifest(kStored, "")["stage"], kStored);
  stage.snapshots.clear();
  stage.keep_optimizer = true;
  EXPECT_EQ(store_.look_up(stage).problem, "it lacks the optimizer's state");
  put(R"({"keeps_optimizer":true,"stage":")" + kStored + R"(","files":{}})");
  EXPECT_EQ(store_.look_up(stage).state, StoredStage::State::whole);
}

TEST_F(StoreTest, files_of_an_artifact_may_lie_in_its_folders_and_nowhere_else) {
  const auto with = [](const std::string& name) {
    return R"({"stage":")" + kStored + R"(","files":{")" + name + R"(":{"bytes":5}}})";
  };
  fs::create_directories(store_.snapshot(kStored, "10%"));
  ASSERT_TRUE(write_file(store_.snapshot(kStored, "10%") + "/model.safetensors", "12345"));
  put(with("snapshots/10pct/model.safetensors"));
  EXPECT_EQ(store_.look_up(kStored).state, StoredStage::State::whole);
  for (const char* name : {"../x", "/etc/passwd", "snapshots//x", "..", "snapshots/../../x"}) {
    put(with(name));
    EXPECT_EQ(store_.look_up(kStored).problem, std::string("manifest.json lists a file outside: ") + name);
  }
}

// What goes from an artifact into the registry must be what the stage wrote; a model is checked by whoever reads it.
TEST_F(StoreTest, a_series_of_the_right_size_with_other_numbers_is_damaged) {
  const std::string series = "{\"name\":\"accuracy\",\"value\":0.07}\n", path = store_.artifact(kStored) + "/series.jsonl";
  put(R"({"stage":")" + kStored + R"(","files":{"series.jsonl":{"bytes":)" + std::to_string(series.size()) + R"(,"sha256":")" +
      sha256(series) + R"("}}})");
  ASSERT_TRUE(write_file(path, series));
  EXPECT_EQ(store_.look_up(kStored).state, StoredStage::State::whole);
  std::string other = series;
  other[other.find("0.07") + 2] = '9';
  ASSERT_TRUE(write_file(path, other));
  EXPECT_EQ(store_.look_up(kStored).state, StoredStage::State::damaged);
  EXPECT_EQ(store_.look_up(kStored).problem, "series.jsonl is not what was written");
  put(R"({"stage":")" + kStored + R"(","files":{}})");
  EXPECT_EQ(store_.look_up(kStored).problem, "series.jsonl is not in the manifest");
}

TEST_F(StoreTest, a_manifest_cannot_lead_out_of_its_artifact) {
  put(R"({"stage":")" + kStored + R"(","files":{"../../../etc/passwd":{"bytes":1}}})");
  EXPECT_EQ(store_.look_up(kStored).problem, "manifest.json lists a file outside: ../../../etc/passwd");
}

TEST_F(StoreTest, a_damaged_artifact_is_set_aside_and_kept) {
  put("{");
  const auto aside = store_.set_aside(kStored);
  ASSERT_TRUE(aside);
  EXPECT_EQ(store_.look_up(kStored).state, StoredStage::State::absent);
  EXPECT_TRUE(fs::exists(*aside + "/model.safetensors"));
}

TEST_F(StoreTest, a_lock_is_held_by_one) {
  ASSERT_TRUE(store_.prepare_work(kStored));
  auto first = store_.lock(kStored);
  ASSERT_TRUE(first && *first);
  auto second = store_.lock(kStored);
  ASSERT_TRUE(second);
  EXPECT_FALSE(*second);
  (*first)->reset();
  second = store_.lock(kStored);
  ASSERT_TRUE(second && *second);
}

TEST_F(StoreTest, logs_are_numbered_by_attempt) {
  ASSERT_TRUE(store_.prepare_work(kStored));
  EXPECT_EQ(store_.next_log(kStored), store_.work(kStored) + "/attempt-1.log");
  ASSERT_TRUE(write_file(store_.work(kStored) + "/attempt-1.log", ""));
  EXPECT_EQ(store_.next_log(kStored), store_.work(kStored) + "/attempt-2.log");
  EXPECT_FALSE(store_.has_checkpoint(kStored));
  fs::create_directories(store_.work(kStored) + "/checkpoint");
  EXPECT_TRUE(store_.has_checkpoint(kStored));
}

TEST_F(StoreTest, a_store_that_cannot_be_written_is_an_environment_error) {
  ASSERT_TRUE(write_file(folder_ / "work", "a file in the way"));
  const auto status = store_.prepare_work(kStored);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::environment);
}

}  // namespace
}  // namespace moiety::host
