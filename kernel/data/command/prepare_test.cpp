// From packages to token files, with packages, corpus and task made up here.
#include "kernel/data/command/prepare.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "kernel/base/files.h"
#include "kernel/data/command/show.h"
#include "kernel/data/corpus/corpus.h"
#include "kernel/data/corpus/task.h"
#include "kernel/data/corpus/token_files.h"
#include "kernel/data/testing/fixtures.h"

namespace moiety::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

const char* const kCorpus = R"(name = "made-up"
version = 1
about = "invented"
document_bytes = 1000
split = { train = 80, valid = 10, test = 10 }
[sizes]
head = 60000
exponent = 1
[[domain]]
name = "owls"
about = "invented prose"
[[domain.source]]
package = "owl-tales"
format = "fortune"
files = ["usr/share/owls/*"]
licence = "MIT"
[[domain]]
name = "cats"
about = "invented prose"
[[domain.source]]
package = "cat-tales"
format = "fortune"
files = ["usr/share/cats/*"]
licence = "MIT"
)";

const char* const kTask = R"(name = "guess"
version = 1
about = "invented"
kind = "classification"
longest = 6
split = { train = 80, valid = 10, test = 10 }
classes = ["noun.animal", "verb.motion"]
[source]
package = "word-net"
format = "wordnet"
files = ["*/data.x"]
licence = "MIT"
)";

std::string invented_sentence(std::mt19937& random) {
  const std::vector<std::string> syllables = {"mo",  "ri",  "ta",  "lun", "sel", "ka", "vor",
                                              "ine", "sha", "del", "pri", "om",  "ne", "gu"};
  std::string text;
  for (int word = 0; word < 14; ++word) {
    for (std::size_t i = 0; i < 2 + random() % 2; ++i) text += syllables[random() % syllables.size()];
    text += word == 13 ? ".\n" : " ";
  }
  return text;
}

std::string tales(unsigned seed) {
  std::mt19937 random(seed);
  std::string text;
  for (int i = 0; i < 900; ++i) text += invented_sentence(random) + "%\n";
  return text;
}

std::string synsets() {
  std::mt19937 random(5);
  std::string text;
  for (int i = 0; i < 600; ++i)
    text += fmt::format("{:08} {:02} n 01 word{}_x 0 000 | {}", i, i % 2 == 0 ? 5 : 38, i % 200, invented_sentence(random));
  return text;
}

/// A store with the packages downloaded, and recipes.
class Prepared : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(make_folders(recipes_ / "corpora"));
    ASSERT_TRUE(make_folders(recipes_ / "tasks"));
    ASSERT_TRUE(write_file(recipes_ / "corpora/made-up.toml", kCorpus));
    ASSERT_TRUE(write_file(recipes_ / "tasks/guess.toml", kTask));
    fill(store_.path());
  }

  static void fill(const std::string& store) {
    make_deb(store + "/packages", "owl-tales", "1.0", {{"usr/share/owls/tales", tales(1)}});
    make_deb(store + "/packages", "cat-tales", "2.0", {{"usr/share/cats/tales", tales(2)}, {"usr/share/doc/x", "not read"}});
    make_deb(store + "/packages", "word-net", "3.0", {{"usr/share/wordnet/data.x", synsets()}});
  }

  Places places() const { return {store_.path(), recipes_.path()}; }
  static Request request() { return {"made-up@1", {}, 500, {"guess"}}; }

  json prepare_all() {
    Progress progress;
    auto ready = prepare(request(), places(), progress);
    EXPECT_TRUE(ready) << ready.error().message;
    return ready ? *ready : json();
  }

  TemporaryFolder store_;
  TemporaryFolder recipes_;
};

std::map<std::string, std::string> all_files(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files[fs::relative(entry.path(), folder).string()] = read_file(entry.path().string()).value();
  }
  return files;
}

TEST_F(Prepared, a_corpus_and_a_task_have_the_documented_files) {
  const json ready = prepare_all();
  const std::string corpus = ready["corpus"]["path"];
  const json about = json::parse(read_file(corpus + "/corpus.json").value());
  EXPECT_EQ(about["format"], 1);
  EXPECT_EQ(about["vocabulary"], 500);
  EXPECT_EQ(about["domains"][0]["name"], "owls");
  EXPECT_EQ(about["domains"][1]["packages"][0], (json{{"package", "cat-tales"}, {"version", "2.0"}}));
  EXPECT_EQ(about["round_trip"]["failures"], 0);
  std::size_t documents = 0;
  for (const auto& domain : about["domains"]) {
    for (const Part part : kParts) {
      const std::string name = domain["name"];
      const auto sequences = read_sequences(tokens_path(corpus, name, part), documents_path(corpus, name, part));
      ASSERT_TRUE(sequences) << sequences.error().message;
      EXPECT_EQ(domain["tokens"][std::string(name_of(part))], sequences->tokens.size());
      EXPECT_EQ(domain["documents"][std::string(name_of(part))], sequences->size());
      documents += sequences->size();
      for (std::size_t i = 0; i < sequences->size(); ++i) EXPECT_EQ(sequences->sequence(i).back(), about["end_of_document"]);
    }
  }
  EXPECT_EQ(about["round_trip"]["documents"], documents);
}

TEST_F(Prepared, task_files_read_back) {
  const json ready = prepare_all();
  const std::string folder = ready["tasks"][0]["path"];
  const json about = json::parse(read_file(folder + "/task.json").value());
  EXPECT_EQ(about["classes"], (json{"noun.animal", "verb.motion"}));
  EXPECT_EQ(about["corpus_hash"], ready["corpus"]["hash"]);
  std::size_t items = 0;
  for (const Part part : kParts) {
    const auto sequences = read_sequences(task_path(folder, part, "tokens.u16"), task_path(folder, part, "offsets.u64"));
    const auto labels = read_integers<std::int32_t>(task_path(folder, part, "labels.i32"));
    ASSERT_TRUE(sequences && labels);
    EXPECT_EQ(sequences->size(), labels->size());
    EXPECT_EQ(about["splits"][std::string(name_of(part))]["items"], labels->size());
    for (const auto label : *labels) EXPECT_TRUE(label == 0 || label == 1);
    for (std::size_t i = 0; i < sequences->size(); ++i) EXPECT_LE(sequences->sequence(i).size(), 6u);
    items += labels->size();
  }
  EXPECT_EQ(items, 600u);
}

TEST_F(Prepared, a_second_cold_run_gives_the_same_bytes) {
  const json first = prepare_all();
  const TemporaryFolder other;
  fill(other.path());
  Progress progress;
  const auto second = prepare(request(), {other.path(), recipes_.path()}, progress);
  ASSERT_TRUE(second);
  EXPECT_EQ(all_files(store_ / "corpora"), all_files(other / "corpora"));
  EXPECT_EQ(all_files(store_ / "tasks"), all_files(other / "tasks"));
  EXPECT_EQ(first["corpus"]["hash"], (*second)["corpus"]["hash"]);
}

TEST_F(Prepared, what_is_there_is_found_and_not_made_again) {
  EXPECT_EQ(check_prepared(request(), places()).value(), (json{{"missing", {"corpus made-up@1", "task guess@1"}}}));
  const json first = prepare_all();
  fs::remove_all(store_ / "packages");
  EXPECT_EQ(prepare_all(), first);
  EXPECT_EQ(check_prepared(request(), places()).value(), first);
  for (const auto& entry : fs::recursive_directory_iterator(store_.path()))
    EXPECT_THAT(entry.path().string(), Not(HasSubstr(".part")));
}

TEST_F(Prepared, a_damaged_file_is_noticed_and_made_again) {
  const json first = prepare_all();
  const std::string file = tokens_path(first["corpus"]["path"], "owls", Part::train);
  const std::string whole = read_file(file).value();
  fs::resize_file(file, 10);
  EXPECT_TRUE(check_prepared(request(), places())->contains("missing"));
  EXPECT_EQ(prepare_all(), first);
  EXPECT_EQ(read_file(file).value(), whole);
}

TEST_F(Prepared, a_file_of_the_right_size_with_other_bytes_is_noticed_and_made_again) {
  const json first = prepare_all();
  for (const std::string& file : {first["corpus"]["path"].get<std::string>() + "/tokens/owls.test.u16",
                                 first["tasks"][0]["path"].get<std::string>() + "/train.labels.i32"}) {
    std::string bytes = read_file(file).value();
    const std::string whole = bytes;
    bytes[0] = static_cast<char>(bytes[0] ^ 1);
    ASSERT_TRUE(write_file(file, bytes));
    EXPECT_TRUE(check_prepared(request(), places()).value().contains("missing")) << file;
    EXPECT_EQ(prepare_all(), first);
    EXPECT_EQ(read_file(file).value(), whole);
  }
}

TEST_F(Prepared, domains_and_vocabulary_are_part_of_what_a_corpus_is) {
  auto other = request();
  other.without = {"cats"};
  Progress progress;
  const auto without = prepare(other, places(), progress);
  ASSERT_TRUE(without) << without.error().message;
  const json about = json::parse(read_file((*without)["corpus"]["path"].get<std::string>() + "/corpus.json").value());
  EXPECT_EQ(about["domains"].size(), 1u);
  EXPECT_NE((*without)["corpus"]["path"], prepare_all()["corpus"]["path"]);
  other.without = {"dogs"};
  EXPECT_EQ(prepare(other, places(), progress).error().exit_code(), 2);
  other.without = {"cats", "owls"};
  EXPECT_EQ(prepare(other, places(), progress).error().exit_code(), 2);
}

TEST_F(Prepared, the_tokenizer_sees_no_text_but_the_train_documents) {
  const auto corpus = parse_corpus(kCorpus, "c").value();
  Progress progress;
  const std::map<std::string, Package> packages = {
      {"owl-tales", {"owl-tales", "1.0", store_ / "packages/owl-tales_1.0_all.deb"}},
      {"cat-tales", {"cat-tales", "2.0", store_ / "packages/cat-tales_2.0_all.deb"}}};
  auto domains = build_domains(corpus, {}, packages, progress).value();
  // A word that only test and valid documents hold, often enough to become a piece if they were read.
  for (auto& domain : domains) {
    for (const Part part : {Part::valid, Part::test}) {
      for (auto& document : domain.documents[static_cast<std::size_t>(part)]) {
        for (int i = 0; i < 50; ++i) document += " zyzzyx";
      }
    }
  }
  std::size_t train_documents = 0;
  for (const auto& domain : domains) train_documents += domain.of(Part::train).size();
  const auto texts = training_texts(domains);
  EXPECT_EQ(texts.size(), train_documents);
  for (const auto text : texts) EXPECT_THAT(std::string(text), Not(HasSubstr("zyzzyx")));
  const auto honest = Tokenizer::train(texts, 500).value();
  auto leaking_texts = texts;
  for (const auto& document : domains[0].of(Part::test)) leaking_texts.push_back(document);
  const auto leaking = Tokenizer::train(leaking_texts, 500).value();
  const auto knows = [](const Tokenizer& tokenizer) { return tokenizer.encode("zyzzyx").size() == 1; };
  EXPECT_FALSE(knows(honest));
  EXPECT_TRUE(knows(leaking)) << "the marker would show a leak";
}

TEST_F(Prepared, no_document_stands_in_two_parts) {
  const auto corpus = parse_corpus(kCorpus, "c").value();
  Progress progress;
  // Both packages hold the same tales: the second domain finds all of its documents taken.
  const Package package{"owl-tales", "1.0", store_ / "packages/owl-tales_1.0_all.deb"};
  auto twice = corpus;
  twice.domains[1].sources[0] = twice.domains[0].sources[0];
  const auto repeated = build_domains(twice, {}, {{"owl-tales", package}}, progress);
  ASSERT_FALSE(repeated);
  EXPECT_THAT(repeated.error().message, HasSubstr("the domain cats has no document"));
  const std::map<std::string, Package> packages = {
      {"owl-tales", package}, {"cat-tales", {"cat-tales", "2.0", store_ / "packages/cat-tales_2.0_all.deb"}}};
  std::set<std::string> seen;
  const auto domains = build_domains(corpus, {}, packages, progress).value();
  for (const auto& domain : domains) {
    for (const Part part : kParts) {
      EXPECT_FALSE(domain.of(part).empty());
      for (const auto& document : domain.of(part)) EXPECT_TRUE(seen.insert(document).second);
    }
  }
}

TEST_F(Prepared, items_with_the_same_first_word_stay_on_one_side) {
  const auto task = parse_task(kTask, "t").value();
  const auto entries = extract_source(task.source, {"word-net", "3.0", store_ / "packages/word-net_3.0_all.deb"}).value();
  const auto text = build_task(task, entries).value();
  std::map<std::string, Part> part_of;
  for (const Part part : kParts) {
    EXPECT_FALSE(text.of(part).empty());
    for (const auto& item : text.of(part)) {
      const auto [entry, is_new] = part_of.emplace(item.text.substr(0, item.text.find(':')), part);
      EXPECT_TRUE(is_new || entry->second == part) << entry->first;
    }
  }
  EXPECT_EQ(part_of.size(), 200u);
}

TEST_F(Prepared, a_label_that_is_no_class_is_an_error) {
  const auto task = parse_task(kTask, "t").value();
  const auto text = build_task(task, {{"a: b", {"noun.food"}, "a"}});
  ASSERT_FALSE(text);
  EXPECT_THAT(text.error().message, HasSubstr("noun.food"));
}

TEST_F(Prepared, a_package_that_changed_its_files_is_named) {
  Source source{"owl-tales", "fortune", {"*/nothing"}, {}, {}, {}, 1, ""};
  const auto entries = extract_source(source, {"owl-tales", "1.0", store_ / "packages/owl-tales_1.0_all.deb"});
  ASSERT_FALSE(entries);
  EXPECT_EQ(entries.error().message, "no file of the package owl-tales 1.0 fits */nothing");
}

TEST_F(Prepared, unknown_names_are_usage_errors_with_near_names) {
  Progress progress;
  const auto corpus = prepare({"made-upp", {}, 500, {}}, places(), progress);
  EXPECT_EQ(corpus.error().exit_code(), 2);
  EXPECT_EQ(corpus.error().hint, "did you mean `made-up`?");
  const auto task = prepare({"made-up", {}, 500, {"gues"}}, places(), progress);
  EXPECT_EQ(task.error().exit_code(), 2);
  EXPECT_EQ(task.error().message, "unknown task `gues`");
}

TEST_F(Prepared, a_vocabulary_that_the_corpus_cannot_fill_leaves_no_folder) {
  Progress progress;
  const auto ready = prepare({"made-up", {}, 60000, {}}, places(), progress);
  ASSERT_FALSE(ready);
  EXPECT_EQ(ready.error().exit_code(), 2);
  EXPECT_TRUE(fs::is_empty(store_ / "corpora"));
}

TEST_F(Prepared, a_store_that_cannot_be_written_is_an_environment_error) {
  Progress progress;
  const auto ready = prepare(request(), {"/dev/null/store", recipes_.path()}, progress);
  ASSERT_FALSE(ready);
  EXPECT_EQ(ready.error().exit_code(), 3);
}

TEST_F(Prepared, documents_are_shown_and_decoded) {
  const json ready = prepare_all();
  const std::string corpus = ready["corpus"]["path"];
  const auto text = decode_document(corpus, "owls", Part::test, 0);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_GT(text->size(), 100u);
  EXPECT_EQ(decode_document(corpus, "owls", Part::test, 9999).error().exit_code(), 2);
  EXPECT_EQ(decode_document(corpus, "dogs", Part::test, 0).error().exit_code(), 2);
  EXPECT_EQ(decode_document(store_.path(), "owls", Part::test, 0).error().exit_code(), 2);
  EXPECT_THAT(show("made-up", places()).value(), HasSubstr("owl-tales 1.0"));
  EXPECT_THAT(show("guess@1", places()).value(), HasSubstr("items cut at 6 tokens"));
  EXPECT_EQ(show("made-upp", places()).error().hint, "did you mean `made-up`?");
  EXPECT_THAT(list_all(places()).value(), HasSubstr("made-up@1            invented  [prepared]"));
}

TEST(PreparedFolder, descriptions_that_are_not_ours_are_not_believed) {
  const TemporaryFolder folder;
  for (const char* text : {"", "[]", "{", "{\"format\":2}", "{\"format\":1,\"hash\":\"x\"}",
                           "{\"format\":1,\"hash\":3,\"files\":{}}", "{\"format\":1,\"hash\":\"x\",\"files\":{\"gone\":1}}"}) {
    ASSERT_TRUE(write_file(folder / "corpus.json", text));
    EXPECT_TRUE(read_prepared(folder.path(), "corpus.json").is_null()) << text;
  }
}

TEST(Request, the_hosts_request_is_read) {
  const auto request = parse_request(
      R"({"corpus":{"use":"debian-8@1","without":["law"],"tokenizer":{"use":"sentencepiece","vocabulary":4096}},"tasks":["supersense@1"]})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->corpus, "debian-8@1");
  EXPECT_EQ(request->without, std::vector<std::string>{"law"});
  EXPECT_EQ(request->vocabulary, 4096);
  EXPECT_EQ(request->tasks, std::vector<std::string>{"supersense@1"});
  EXPECT_TRUE(parse_request(R"({"corpus":{"use":"x","tokenizer":{"vocabulary":4096}}})"));
}

TEST(Request, wrong_requests_are_usage_errors) {
  for (const char* text :
       {"", "{", "[]", "{}", R"({"corpus":3})", R"({"corpus":{"use":3}})", R"({"corpus":{"use":"x"}})",
        R"({"corpus":{"use":"x","tokenizer":3}})", R"({"corpus":{"use":"x","tokenizer":{"vocabulary":"many"}}})",
        R"({"corpus":{"use":"x","tokenizer":{"vocabulary":100}}})",
        R"({"corpus":{"use":"x","tokenizer":{"vocabulary":99999999999}}})",
        R"({"corpus":{"use":"x","tokenizer":{"use":"words","vocabulary":4096}}})",
        R"({"corpus":{"use":"x","tokenizer":{"vocabulary":4096},"domains":[]}})",
        R"({"corpus":{"use":"x","tokenizer":{"vocabulary":4096},"without":"a"}})",
        R"({"corpus":{"use":"x","tokenizer":{"vocabulary":4096}},"tasks":[1]})",
        R"({"corpus":{"use":"x","tokenizer":{"vocabulary":4096}},"task":[]})"}) {
    const auto request = parse_request(text);
    ASSERT_FALSE(request) << text;
    EXPECT_EQ(request.error().exit_code(), 2);
  }
}

}  // namespace
}  // namespace moiety::data
