// `moiety sql` reads, and does nothing else.
#include <signal.h>

#include "registry/report.h"
#include "registry/test_support.h"

namespace moiety::registry {
namespace {

using testing::HasSubstr;

class Sql : public RegistryTest {
 protected:
  void SetUp() override {
    RegistryTest::SetUp();
    StudySketch sketch;
    sketch.metrics = [](const std::string&, int seed) {
      return std::vector<MetricRow>{{"accuracy", {{"set", "test"}, {"domain", "fiction"}}, 0, 0.25 * seed}};
    };
    sketch.write(*registry);
  }
  std::string csv(const std::string& query) {
    const auto out = sql_text(*registry, query, Format::csv);
    EXPECT_TRUE(out) << query << ": " << out.error().message;
    return out.value_or("");
  }
};

TEST_F(Sql, the_views_answer) {
  EXPECT_EQ(csv("SELECT arm, count(*) AS n FROM v_runs GROUP BY arm ORDER BY arm"), "arm,n\ndense,3\nsplit,3\n");
  EXPECT_EQ(csv("SELECT metric, domain, \"set\", n, mean, sd FROM v_arms WHERE arm = 'split'"),
            "metric,domain,set,n,mean,sd\naccuracy,fiction,test,3,0.5,0.25\n");
  EXPECT_EQ(csv("SELECT value FROM v_final WHERE run = 2"), "value\n0.5\n");
  EXPECT_EQ(csv("SELECT count(*) AS n FROM v_claims"), "n\n0\n");
  EXPECT_EQ(csv("SELECT DISTINCT txt FROM v_params WHERE path = 'method' ORDER BY 1"), "txt\ndense\nsplit\n");
}

TEST_F(Sql, has_stddev_median_and_ci95) {
  const std::string values = "(SELECT 1.0 AS x UNION ALL SELECT 2 UNION ALL SELECT 6 UNION ALL SELECT NULL)";
  // sd = sqrt(7); 4.3026527 is Student's quantile at two degrees.
  EXPECT_EQ(
      csv("SELECT round(stddev(x), 6) AS s, median(x) AS m, round(ci95(x) - 4.3026527 * sqrt(7.0 / 3), 6) AS c FROM " + values),
      "s,m,c\n2.645751,2,0\n");
  EXPECT_EQ(csv("SELECT median(x) AS m, stddev(x) AS s FROM (SELECT 1 AS x UNION ALL SELECT 2)"),
            "m,s\n1.5,0.7071067811865476\n");
  EXPECT_EQ(csv("SELECT stddev(1) AS s, median(NULL) AS m, ci95(1) AS c"), "s,m,c\n,,\n");
}

TEST_F(Sql, everything_but_reading_is_denied_and_leaves_no_trace) {
  const std::string evil = folder / "evil.db";
  const auto before = count("SELECT count(*) FROM run");
  for (const std::string& query : {"ATTACH '" + evil + "' AS x",
                                   "VACUUM INTO '" + evil + "'",
                                   std::string("/* c */ -- d\n VACUUM"),
                                   std::string("DELETE FROM run"),
                                   std::string("WITH x AS (SELECT 1) DELETE FROM run"),
                                   std::string("WITH x AS (SELECT 1) INSERT INTO meta VALUES('a', 'b')"),
                                   std::string("WITH x AS (SELECT 1) UPDATE run SET seed = 0"),
                                   std::string("WITH x AS (SELECT 1) UPDATE sqlite_master SET sql = ''"),
                                   std::string("DROP TABLE run"),
                                   std::string("CREATE TEMP TABLE t(x)"),
                                   std::string("PRAGMA user_version = 7"),
                                   std::string("PRAGMA journal_mode = DELETE"),
                                   std::string("PRAGMA writable_schema = 1"),
                                   std::string("PRAGMA wal_checkpoint"),
                                   std::string("PRAGMA trusted_schema = 1"),
                                   std::string("SELECT load_extension('/tmp/x.so')"),
                                   std::string("BEGIN"),
                                   std::string("SAVEPOINT x"),
                                   std::string("REINDEX"),
                                   std::string("SELECT 1; DELETE FROM run"),
                                   std::string("SELECT 1; SELECT 2"),
                                   std::string(""),
                                   std::string("-- nothing"),
                                   std::string(";")}) {
    const auto out = sql_text(*registry, query, Format::table);
    ASSERT_FALSE(out) << query << ": " << *out;
    EXPECT_EQ(out.error().kind, ErrorKind::usage) << query << ": " << out.error().message;
    EXPECT_FALSE(out.error().message.empty());
  }
  EXPECT_NE(access(evil.c_str(), F_OK), 0);
  EXPECT_EQ(count("SELECT count(*) FROM run"), before);
  EXPECT_EQ(count("PRAGMA user_version"), migrations().back().version);
}

TEST_F(Sql, says_what_is_not_allowed) {
  const auto attach = sql_text(*registry, "ATTACH 'x' AS y", Format::table);
  ASSERT_FALSE(attach);
  EXPECT_EQ(attach.error().message, "`moiety sql` only reads: ATTACH is not allowed");
  const auto hidden = sql_text(*registry, "WITH x AS (SELECT 1) DELETE FROM run", Format::table);
  ASSERT_FALSE(hidden);
  EXPECT_EQ(hidden.error().message, "`moiety sql` only reads: changing the registry is not allowed");
  const auto table = sql_text(*registry, "SELECT * FROM v_run", Format::table);
  ASSERT_FALSE(table);
  EXPECT_THAT(table.error().hint, HasSubstr("did you mean `v_runs`?"));
}

TEST_F(Sql, reads_what_tools_need) {
  EXPECT_THAT(csv("PRAGMA table_info(v_runs)"), HasSubstr("run_id"));
  EXPECT_EQ(csv("SELECT value FROM json_each('[7]')"), "value\n7\n");
  EXPECT_EQ(csv("SELECT name FROM pragma_table_info('label') ORDER BY cid"), "name\nkey\nlabels\n");
  EXPECT_THAT(csv("EXPLAIN QUERY PLAN SELECT * FROM run"), HasSubstr("SCAN run"));
  EXPECT_EQ(csv("SELECT 1 AS a;  -- and a comment"), "a\n1\n");
  EXPECT_EQ(csv("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT sum(i) AS s FROM n"),
            "s\n15\n");
}

TEST_F(Sql, text_is_escaped_for_where_it_goes) {
  const std::string query =
      "SELECT '=1+1' AS a, '-5' AS b, -5 AS c, '@x|<b>' AS d, 'tab' || char(27) || '[31m' AS e, x'00ff' AS f";
  EXPECT_EQ(csv(query), "a,b,c,d,e,f\n'=1+1,-5,-5,'@x|<b>,tab\\x1b[31m,00ff\n");
  const auto table = sql_text(*registry, query, Format::table);
  ASSERT_OK(table);
  EXPECT_EQ(table->find('\x1b'), std::string::npos);
  const auto markdown = sql_text(*registry, query, Format::markdown);
  ASSERT_OK(markdown);
  EXPECT_THAT(*markdown, HasSubstr("@x\\|&lt;b>"));
  const auto json = sql_text(*registry, "SELECT char(155) AS a, 1 AS a, 'é' AS \"b\"", Format::json);
  ASSERT_OK(json);
  EXPECT_THAT(*json, HasSubstr("\\u009b")) << "C1 control characters too";
  EXPECT_EQ(nlohmann::json::parse(*json)[0]["a_2"], 1) << "columns of one name stay apart";
}

const std::string endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, 'x' AS x FROM n";

TEST_F(Sql, an_answer_without_end_is_passed_on_while_it_comes) {
  for (const auto& [format, line] :
       std::vector<std::pair<Format, std::string>>{{Format::csv, "\n20000,x\n"},
                                                   {Format::markdown, "\n| 20000 | x |\n"},
                                                   {Format::table, "\n20000  x\n"},
                                                   {Format::json, "\"i\": 20000,\n  \"x\": \"x\""}}) {
    std::string seen;
    const auto status = sql_rows(*registry, endless, format, [&, &wanted = line](const std::string& text) {
      EXPECT_LT(text.size(), 1U << 20);
      seen += text;
      return seen.find(wanted) == std::string::npos;
    });
    ASSERT_OK(status);
    EXPECT_THAT(seen.substr(0, 40), HasSubstr("i"));
    EXPECT_NE(seen.find(line), std::string::npos);
  }
}

TEST_F(Sql, an_error_before_much_was_printed_prints_nothing) {
  int parts = 0;
  const auto status =
      sql_rows(*registry, "SELECT 1 UNION ALL SELECT abs(-9223372036854775807 - 1)", Format::csv, [&](const std::string&) {
        ++parts;
        return true;
      });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "the query is wrong: integer overflow");
  EXPECT_EQ(parts, 0);
}

int signals_seen = 0;

TEST_F(Sql, ctrl_c_ends_an_endless_query_and_the_signal_is_passed_on) {
  struct sigaction mine {};
  struct sigaction before {};
  signals_seen = 0;
  mine.sa_handler = [](int) { ++signals_seen; };
  sigaction(SIGINT, &mine, &before);
  // A child sends the signal until this process has taken it; before the query runs it only counts in our own handler.
  const pid_t parent = getpid();
  const pid_t child = in_child([&] {
    for (int i = 0; i < 3000; ++i) {
      kill(parent, SIGINT);
      usleep(20'000);
    }
    return 0;
  });
  const auto out = sql_text(*registry, "SELECT count(*) FROM (" + endless + ")", Format::table);
  const auto rows = sql_rows(*registry, endless, Format::csv, [](const std::string&) { return true; });
  kill(child, SIGKILL);
  wait_for(child);
  sigaction(SIGINT, &before, nullptr);
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().message, "the query was interrupted");
  ASSERT_FALSE(rows);
  EXPECT_EQ(rows.error().message, "the query was interrupted");
  EXPECT_GT(signals_seen, 0);
}

}  // namespace
}  // namespace moiety::registry
