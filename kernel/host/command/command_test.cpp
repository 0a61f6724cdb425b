// The command line of the program: help, unknown words, and what the reading commands touch.
#include "kernel/host/command/command.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "kernel/base/text.h"
#include "kernel/host/discovery/locate.h"
#include "kernel/host/run/testing/sandbox.h"

namespace moiety::host {
namespace {

using testing::Sandbox;
using testing::two_arm_recipe;
namespace fs = std::filesystem;

using testing::has;

TEST(CommandLine, T33_unknown_options_and_commands_are_errors_with_near_names) {
  Sandbox box;
  const auto check = [&](std::vector<std::string> words, const std::string& first, const std::string& second) {
    const auto ran = box.run(words);
    EXPECT_EQ(ran.code, 2) << join(words, " ");
    EXPECT_EQ(ran.errors, first + "\n  " + second + "\n");
    EXPECT_EQ(ran.output, "");
  };
  check({"rnu", "x.toml"}, "unknown command `rnu`", "did you mean `run`?");
  check({"frobnicate"}, "unknown command `frobnicate`", "`moiety --help` lists all commands");
  check({"recipe", "resolv"}, "unknown command `recipe resolv`", "there is `moiety recipe resolve`");
  check({"db"}, "`moiety db` needs a second word", "there is `moiety db check`");
  check({"run", "x.toml", "--job", "2"}, "unknown option `--job`", "did you mean `--jobs`?");
  check({"run", "x.toml", "--stage.tuned.batch=2"}, "unknown option `--stage.tuned.batch`", "usage: moiety run RECIPE [options]");
  check({"runs", "-x"}, "unknown option `-x`", "usage: moiety runs [options]");
  check({"run"}, "something is missing", "usage: moiety run RECIPE [options]");
  check({"run", "a.toml", "b.toml"}, "one argument too many: `b.toml`", "usage: moiety run RECIPE [options]");
  check({"run", "a.toml", "--jobs"}, "--jobs needs a value: --jobs N", "usage: moiety run RECIPE [options]");
  check({"run", "a.toml", "--store", "a", "--store", "b"}, "--store is given twice", "usage: moiety run RECIPE [options]");
  check({"--store", "a", "run"}, "unknown option `--store`", "options come behind the command: moiety COMMAND [options]");
  EXPECT_EQ(box.run({"run", "a.toml", "--jobs", "none"}).errors, "--jobs takes a whole number of at least 1, not `none`\n");
  EXPECT_EQ(box.run({"run", "a.toml", "--jobs", "0"}).code, 2);
}

TEST(CommandLine, every_command_has_help_with_an_example_and_the_common_options) {
  Sandbox box;
  const auto whole = box.run({"--help"});
  EXPECT_EQ(whole.code, 0);
  for (const auto& command : subcommands()) {
    EXPECT_TRUE(has(whole.output, "  " + command.name)) << command.name;
    auto words = split(command.name, ' ');
    words.emplace_back("--help");
    const auto help = box.run(words);
    EXPECT_EQ(help.code, 0) << command.name;
    for (const char* part : {"usage: moiety ", "example: moiety ", "--registry FILE", "--store DIR", "--help"})
      EXPECT_TRUE(has(help.output, part)) << command.name;
  }
  EXPECT_EQ(box.run({"help", "run"}).output, box.run({"run", "--help"}).output);
  EXPECT_EQ(box.run({}).code, 2);
}

TEST(CommandLine, version_and_reading_commands_load_neither_libtorch_nor_a_plugin) {
  Sandbox box;
  const auto version = box.run({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_TRUE(has(version.output, "moiety ")) << version.output;
  // What the loader would map for the program: nothing of LibTorch, sentencepiece or the plugins.
  Command command;
  command.words = {"ldd", program_folder() + "/moiety"};
  const auto captured = capture(command, 10);
  ASSERT_TRUE(captured);
  ASSERT_EQ(captured->exit.code, 0);
  EXPECT_TRUE(has(captured->output, "libsqlite3")) << captured->output;
  for (const char* library : {"libtorch", "libc10", "libsentencepiece", "libprotobuf", ".moiety.so"})
    EXPECT_FALSE(has(captured->output, library)) << library;
}

TEST(CommandLine, reading_commands_never_start_a_worker) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe("", "\n[claim.better]\nthat = \"accuracy(high) > accuracy(low)\"\n"));
  ASSERT_EQ(box.run_recipe().code, 0);
  box.forget_calls();
  box.set("MOIETY_WORKER", box.path("nothing"));
  for (const std::vector<std::string>& words : {std::vector<std::string>{"runs"},
                                                {"show", "1"},
                                                {"logs", "1"},
                                                {"compare"},
                                                {"compare", "low", "high", "--metric", "accuracy"},
                                                {"claims"},
                                                {"sql", "SELECT count(*) FROM v_runs"},
                                                {"db", "check"},
                                                {"db", "check", "--contents"},
                                                {"runs", "--json"}}) {
    const auto ran = box.run(words);
    EXPECT_EQ(ran.code, 0) << join(words, " ") << "\n" << ran.errors;
    EXPECT_NE(ran.output, "") << join(words, " ");
  }
  EXPECT_EQ(box.calls(""), 0);
  EXPECT_TRUE(has(box.run({"sql", "SELECT count(*) AS n FROM v_runs", "--csv"}).output, "n\n6\n"));
  EXPECT_EQ(box.run({"sql", "DELETE FROM run"}).code, 2);
  EXPECT_NE(box.run({"show", "99"}).code, 0);
}

TEST(CommandLine, db_check_finds_a_file_that_is_missing_or_changed) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe());
  ASSERT_EQ(box.run_recipe().code, 0);
  const auto file = box.sql("SELECT path FROM artifact WHERE name = 'model.json' LIMIT 1");
  auto text = *read_file(file);
  text[2] = text[2] == 'l' ? 'm' : 'l';
  ASSERT_TRUE(write_file(file, text));
  EXPECT_EQ(box.run({"db", "check"}).code, 0) << "the size is right";
  const auto contents = box.run({"db", "check", "--contents"});
  EXPECT_EQ(contents.code, 1);
  EXPECT_TRUE(has(contents.output, file + " has another content than was recorded")) << contents.output;
  fs::remove(file);
  const auto missing = box.run({"db", "check"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_TRUE(has(missing.output, file + " is missing")) << missing.output;
}

TEST(CommandLine, commands_that_read_make_no_registry) {
  Sandbox box;
  for (const bool named : {false, true}) {
    const auto path = named ? box.path("nodir/none.db") : box.registry();
    for (std::vector<std::string> words : {std::vector<std::string>{"runs"},
                                           {"show", "1"},
                                           {"logs", "1"},
                                           {"compare"},
                                           {"claims"},
                                           {"sql", "SELECT 1"},
                                           {"db", "check"}}) {
      if (named) words.insert(words.end(), {"--registry", path});
      const auto ran = box.run(words);
      EXPECT_EQ(ran.code, 2) << join(words, " ");
      EXPECT_EQ(ran.output, "") << join(words, " ");
      EXPECT_EQ(ran.errors, "there is no registry at " + path +
                                "\n  `moiety run RECIPE` makes one; another file is named with --registry FILE or MOIETY_DB\n");
      EXPECT_FALSE(fs::exists(path)) << join(words, " ");
      EXPECT_FALSE(fs::exists(box.path("nodir"))) << join(words, " ");
    }
  }
  box.write("empty.db", "");
  EXPECT_EQ(box.run({"runs", "--registry", "empty.db"}).code, 2);
  EXPECT_EQ(fs::file_size(box.path("empty.db")), 0U);
}

/// The program with a shell's redirections behind it.
testing::Ran run_in_shell(const Sandbox& box, const std::string& words) {
  auto command = box.command({});
  command.words = {"/bin/sh", "-c", "exec " + program_folder() + "/moiety " + words};
  const auto captured = capture(command, 60);
  if (!captured) return {999, "", captured.error().message};
  return {captured->exit.code, captured->output, captured->errors};
}

TEST(CommandLine, output_that_cannot_be_written_is_a_problem_of_the_machine) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe());
  ASSERT_EQ(box.run_recipe().code, 0);
  const std::string many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000) SELECT i FROM n";
  for (const auto& words : {std::string("sql 'SELECT 1'"), "sql '" + many + "'", "sql '" + many + "' --json", std::string("runs"),
                            std::string("show 1"), std::string("compare"), std::string("recipe resolve recipe.toml"),
                            std::string("plan recipe.toml"), std::string("db check"), std::string("run recipe.toml"),
                            std::string("plugins info train"), std::string("--help"), std::string("--version")}) {
    const auto ran = run_in_shell(box, words + " >/dev/full");
    EXPECT_EQ(ran.code, 3) << words;
    EXPECT_TRUE(has(ran.errors, "cannot write the output: No space left on device\n")) << words << "\n" << ran.errors;
  }
  EXPECT_EQ(run_in_shell(box, "runs >&-").code, 3);
  EXPECT_EQ(run_in_shell(box, "show 99 >/dev/full").code, 2) << "nothing to write, and a worse problem";
}

TEST(CommandLine, a_reader_that_has_seen_enough_is_no_problem) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe());
  for (const std::string words : {"--help", "run recipe.toml", "sql 'SELECT 1' --registry moiety.db"}) {
    const auto ran = run_in_shell(box, words + " 2>errors | true");
    EXPECT_FALSE(has(*read_file(box.path("errors")), "cannot write")) << words;
  }
}

TEST(CommandLine, an_unusable_TMPDIR_is_a_problem_of_the_machine) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe());
  box.set("TMPDIR", box.path("none"));
  for (const char* word : {"run", "plan"}) {
    const auto ran = box.run({word, "recipe.toml"});
    EXPECT_EQ(ran.code, 3) << word << "\n" << ran.errors;
    EXPECT_TRUE(has(ran.errors, "cannot make a temporary folder in " + box.path("none") + ": ")) << word << "\n" << ran.errors;
    EXPECT_TRUE(has(ran.errors, "\n  TMPDIR names this place")) << word << "\n" << ran.errors;
  }
}

TEST(CommandLine, an_endless_answer_needs_little_memory_and_ends_with_its_output) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe());
  ASSERT_EQ(box.run_recipe().code, 0);
  const std::string query = "sql 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n' ";
  for (const std::string format : {"", "--json", "--csv", "--md"}) {
    const auto full = run_in_shell(box, query + format + " >/dev/full");
    EXPECT_EQ(full.code, 3) << format << full.errors;
    const auto head = run_in_shell(box, query + format + " | head -n 300000 | tail -n 1");
    EXPECT_NE(head.output, "") << format;
    EXPECT_EQ(head.errors, "") << format;
  }
}

TEST(CommandLine, one_format_at_a_time) {
  Sandbox box;
  const auto ran = box.run({"sql", "SELECT 1", "--json", "--csv"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.errors, "one format only, not --json and --csv\n");
}

TEST(CommandLine, a_plugin_path_that_is_not_there_is_an_error) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe());
  for (std::vector<std::string> words : {std::vector<std::string>{"plugins"}, {"plan", "recipe.toml"}, {"run", "recipe.toml"}}) {
    words.insert(words.end(), {"--plugin-path", "none"});
    const auto ran = box.run(words);
    EXPECT_EQ(ran.code, 2) << words[0];
    EXPECT_TRUE(has(ran.errors, "--plugin-path ")) << ran.errors;
    EXPECT_TRUE(has(ran.errors, "/none: No such file or directory")) << ran.errors;
  }
  EXPECT_FALSE(fs::exists(box.registry()));
}

TEST(CommandLine, an_unknown_recipe_is_refused_with_a_near_name) {
  Sandbox box;
  box.write("quickstart.toml", "");
  const auto ran = box.run({"run", "quikstart.toml"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.errors, "there is no recipe quikstart.toml\n  did you mean `quickstart.toml`?\n");
  EXPECT_FALSE(fs::exists(box.registry()));
  EXPECT_EQ(box.calls(""), 0);
}

TEST(CommandLine, resolve_prints_defaults_and_origins) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe());
  const auto text = box.run({"recipe", "resolve", "recipe.toml", "--set", "stage.tuned.level=0.25"});
  EXPECT_EQ(text.code, 0) << text.errors;
  EXPECT_TRUE(has(text.output, "= 0.25")) << text.output;
  EXPECT_TRUE(has(text.output, "= \"succeed\"")) << text.output;
  const auto origins = box.run({"recipe", "resolve", "recipe.toml", "--set", "stage.tuned.level=0.25", "--origin"});
  EXPECT_TRUE(has(origins.output, "command line, 1st --set")) << origins.output;
  EXPECT_EQ(box.run({"recipe", "resolve", "recipe.toml", "--unset", "arm.nothing"}).code, 2);
}

TEST(CommandLine, plan_tells_what_is_new_done_and_stale_and_why_and_writes_nothing) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe());
  const auto fresh = box.run({"plan", "recipe.toml"});
  EXPECT_EQ(fresh.code, 0) << fresh.all();
  EXPECT_TRUE(has(fresh.output, "13 stages: 13 to run, 13.0k tokens, 13.0G FLOPs")) << fresh.output;
  EXPECT_FALSE(fs::exists(box.registry()));
  EXPECT_EQ(box.calls("run"), 0);
  ASSERT_EQ(box.run_recipe().code, 0);
  EXPECT_TRUE(has(box.run({"plan", "recipe.toml"}).output, "13 stages: 0 to run"));
  const auto changed = box.run({"plan", "recipe.toml", "--set", "stage.tuned.level=0.25"});
  EXPECT_TRUE(has(changed.output, "3 stale")) << changed.output;
  EXPECT_TRUE(has(changed.output, "stale: level: 0.5 → 0.25")) << changed.output;
}

TEST(CommandLine, plan_needs_no_prepared_corpus) {
  Sandbox box;
  box.write("recipe.toml", two_arm_recipe("", "\n[corpus]\nuse = \"debian-8\"\n"));
  box.set("FAKE_DATA", "missing");
  const auto ran = box.run({"plan", "recipe.toml", "--set", "stage.base.do=pretrain"});
  EXPECT_EQ(ran.code, 0) << ran.all();
  EXPECT_TRUE(has(ran.output, "corpus debian-8@1 is not prepared yet")) << ran.output;
  EXPECT_EQ(box.calls("data prepare"), 0);
}

TEST(CommandLine, P10_plugins_lists_components_and_every_failed_file_with_its_reason) {
  Sandbox box;
  box.write("plugins/routers.moiety.so", "component router top-k 1 k\n");
  box.write("plugins/broken.moiety.so", "crash\n");
  box.write("plugins/zz.moiety.so", "component router top-k 1 k\n");
  const auto listed = box.run({"plugins"});
  EXPECT_EQ(listed.code, 0) << listed.errors;
  EXPECT_TRUE(has(listed.output, "router/top-k@1")) << listed.output;
  EXPECT_TRUE(has(listed.output, box.path("plugins/broken.moiety.so") + ": killed by signal 11 (SIGSEGV)")) << listed.output;
  const auto verbose = box.run({"plugins", "-v"});
  EXPECT_TRUE(has(verbose.output, "router/top-k@1 of " + box.path("plugins/zz.moiety.so") + ": " +
                                      box.path("plugins/routers.moiety.so") + " comes first"))
      << verbose.output;
  EXPECT_TRUE(has(verbose.output, "MOIETY_PLUGIN_PATH: 3 files")) << verbose.output;
  const int before = box.calls("probe");
  EXPECT_GT(before, 0);
  box.run({"plugins"});
  EXPECT_EQ(box.calls("probe"), before);
  box.run({"plugins", "--rescan"});
  EXPECT_GT(box.calls("probe"), before);
}

TEST(CommandLine, plugins_info_tells_parameters_of_components_verbs_and_the_model) {
  Sandbox box;
  box.write("plugins/routers.moiety.so", "component router top-k 1 k\n");
  const auto router = box.run({"plugins", "info", "router/top-k"});
  EXPECT_EQ(router.code, 0);
  EXPECT_TRUE(has(router.output, "k  integer >= 1, default 1: a number")) << router.output;
  EXPECT_TRUE(has(box.run({"plugins", "info", "train"}).output, "level"));
  EXPECT_TRUE(has(box.run({"plugins", "info", "model"}).output, "layers"));
  const auto unknown = box.run({"plugins", "info", "router/topk"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(has(unknown.errors, "did you mean `router/top-k`?")) << unknown.errors;
}

}  // namespace
}  // namespace moiety::host
