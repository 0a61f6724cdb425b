#include "kernel/data/corpus/description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/base/files.h"

namespace moiety::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kCorpus = R"(name = "tiny"
version = 2
about = "a test"
document_bytes = 1000
split = { train = 80, valid = 10, test = 10 }
[sizes]
head = 1000
exponent = 1.0
[[domain]]
name = "owls"
about = "birds"
[[domain.source]]
package = "owls"
format = "fortune"
files = ["*.txt"]
share = 0.5
licence = "MIT"
[[domain]]
name = "cats"
about = "pets"
[[domain.source]]
package = "cats"
format = "code"
files = ["*"]
licence = "MIT"
)";

std::string with(const std::string& from, const std::string& to) {
  std::string text = kCorpus;
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(Description, a_corpus_is_read_in_its_order) {
  const auto corpus = parse_corpus(kCorpus, "tiny.toml");
  ASSERT_TRUE(corpus) << corpus.error().message;
  EXPECT_EQ(corpus->version, 2);
  EXPECT_EQ(corpus->domains[0].name, "owls");
  EXPECT_EQ(corpus->domains[0].sources[0].share, 0.5);
  EXPECT_EQ(corpus->characters(0), 1000);
  EXPECT_EQ(corpus->characters(1), 500);
}

TEST(Description, T26_an_unknown_key_is_refused_with_line_and_near_name) {
  const auto corpus = parse_corpus(with("licence = \"MIT\"", "licens = \"MIT\""), "tiny.toml");
  ASSERT_FALSE(corpus);
  EXPECT_EQ(corpus.error().exit_code(), 2);
  EXPECT_THAT(corpus.error().message, HasSubstr("tiny.toml:17:1: error: unknown key `licens`; did you mean `licence`?"));
}

TEST(Description, all_errors_of_a_file_come_at_once) {
  std::string text = with("version = 2", "version = \"two\"");
  text.replace(text.find("\"code\""), 6, "\"coda\"");
  const auto corpus = parse_corpus(text, "t");
  ASSERT_FALSE(corpus);
  EXPECT_THAT(corpus.error().message, HasSubstr("t:2:11: error: `version` must be a whole number from 1"));
  EXPECT_THAT(corpus.error().message, HasSubstr("unknown format `coda`; did you mean `code`?"));
}

TEST(Description, values_that_cannot_be_meant_are_refused) {
  EXPECT_FALSE(parse_corpus(with("test = 10", "test = 20"), "t")) << "110 percent";
  EXPECT_FALSE(parse_corpus(with("share = 0.5", "share = 1.5"), "t"));
  EXPECT_FALSE(parse_corpus(with("head = 1000", "head = nan"), "t"));
  EXPECT_FALSE(parse_corpus(with("name = \"cats\"", "name = \"owls\""), "t")) << "twice the same domain";
  EXPECT_FALSE(parse_corpus(with("name = \"cats\"", "name = \"../cats\""), "t")) << "a name becomes a path";
  EXPECT_FALSE(parse_corpus(with("package = \"cats\"", "package = \"--config-file=x\""), "t"))
      << "a package becomes an argument of apt";
  EXPECT_FALSE(parse_corpus("name = ", "t"));
  EXPECT_FALSE(parse_corpus("", "t"));
}

TEST(Description, a_task_is_read_and_checked) {
  const std::string task =
      "name='birds'\nversion=1\nabout='a'\nkind='classification'\nlongest=16\nclasses=['a','b']\nsplit={train=80,valid=10,test="
      "10}\n"
      "[source]\npackage='owls'\nformat='wordnet'\nfiles=['*']\nlicence='MIT'\n";
  const auto parsed = parse_task(task, "t");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->longest, 16u);
  EXPECT_THAT(parsed->classes, ElementsAre("a", "b"));
  EXPECT_FALSE(parse_task("extra=1\n" + task, "t"));
}

TEST(Description, unknown_names_and_versions_are_usage_errors_with_near_names) {
  const TemporaryFolder recipes;
  ASSERT_TRUE(make_folders(recipes / "corpora"));
  ASSERT_TRUE(write_file(recipes / "corpora/tiny.toml", kCorpus));
  EXPECT_TRUE(find_corpus("tiny", recipes.path()));
  EXPECT_TRUE(find_corpus("tiny@2", recipes.path()));
  const auto unknown = find_corpus("tinny", recipes.path());
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().exit_code(), 2);
  EXPECT_EQ(unknown.error().message, "unknown corpus `tinny`");
  EXPECT_EQ(unknown.error().hint, "did you mean `tiny`?");
  EXPECT_EQ(find_corpus("tiny@1", recipes.path()).error().hint, "this Moiety has tiny@2");
  for (const char* bad : {"tiny@", "tiny@x", "tiny@0", "../tiny", ""})
    EXPECT_EQ(find_corpus(bad, recipes.path()).error().exit_code(), 2) << bad;
}

TEST(Description, shipped_corpora_and_tasks_are_sound) {
  const std::string recipes = MOIETY_RECIPES;
  for (const auto& name : list_descriptions(recipes, "corpora")) {
    const auto corpus = find_corpus(name, recipes);
    EXPECT_TRUE(corpus) << corpus.error().message;
  }
  for (const auto& name : list_descriptions(recipes, "tasks")) {
    const auto task = find_task(name, recipes);
    EXPECT_TRUE(task) << task.error().message;
  }
  EXPECT_EQ(find_corpus("debian-8@1", recipes)->domains.size(), 8u);
  EXPECT_EQ(find_task("supersense@1", recipes)->classes.size(), 45u);
}

}  // namespace
}  // namespace moiety::data
