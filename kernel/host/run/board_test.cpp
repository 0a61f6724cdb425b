#include "kernel/host/run/board.h"

#include <gtest/gtest.h>

namespace moiety::host {
namespace {

/// base → a, b; a → a2.
Plan diamond() {
  static const VerbDeclaration verb;
  Plan plan;
  const auto add = [&](const std::string& id, std::vector<std::string> reads, std::vector<std::string> arms) {
    PlannedStage stage;
    stage.id = stage.name = id;
    stage.verb = &verb;
    stage.arms = std::move(arms);
    for (auto& input : reads) stage.inputs.push_back({"from", std::move(input)});
    plan.stages.push_back(stage);
  };
  add("base", {}, {"x", "y"});
  add("a", {"base"}, {"x"});
  add("b", {"base"}, {"y"});
  add("a2", {"a"}, {"x"});
  plan.arms = {{"x", ""}, {"y", ""}};
  plan.runs = {{"x", 1, {{"base", "base"}, {"a", "a"}, {"a2", "a2"}}, ""},
               {"y", 1, {{"base", "base"}, {"b", "b"}}, ""},
               {"y", 2, {{"base", "base"}}, ""}};
  return plan;
}

std::vector<std::string> names(const std::vector<const PlannedStage*>& stages) {
  std::vector<std::string> out;
  for (const auto* stage : stages) out.push_back(stage->name);
  return out;
}

using Names = std::vector<std::string>;

TEST(Board, a_stage_is_ready_when_all_it_reads_is_done) {
  const auto plan = diamond();
  Board board(plan);
  EXPECT_EQ(names(board.ready()), Names{"base"});
  board.set_running("base");
  EXPECT_TRUE(board.ready().empty());
  EXPECT_FALSE(board.finished());
  board.end("base", StageState::done);
  EXPECT_EQ(names(board.ready()), (Names{"a", "b"}));
  board.end("a", StageState::done);
  EXPECT_EQ(names(board.ready()), (Names{"b", "a2"}));
}

TEST(Board, a_failure_takes_its_readers_and_nothing_else) {
  const auto plan = diamond();
  Board board(plan);
  board.end("base", StageState::done);
  EXPECT_EQ(names(board.end("a", StageState::failed)), Names{"a2"});
  EXPECT_EQ(board.state("a2"), StageState::skipped);
  EXPECT_EQ(names(board.ready()), Names{"b"});
  EXPECT_EQ(board.count(StageState::skipped), 1U);
}

TEST(Board, a_failure_at_the_root_reaches_every_reader_once) {
  const auto plan = diamond();
  Board board(plan);
  EXPECT_EQ(names(board.end("base", StageState::diverged)), (Names{"a", "b", "a2"}));
  EXPECT_TRUE(board.finished());
}

TEST(Board, an_interruption_skips_nobody) {
  const auto plan = diamond();
  Board board(plan);
  EXPECT_TRUE(board.end("base", StageState::interrupted).empty());
  EXPECT_EQ(board.state("a"), StageState::waiting);
  EXPECT_TRUE(board.ready().empty());
}

TEST(Board, a_stage_is_named_by_its_arms_and_seeds) {
  auto plan = diamond();
  EXPECT_EQ(whose(plan, plan.stages[0]), "all arms, all seeds");
  EXPECT_EQ(whose(plan, plan.stages[1]), "arm x, seed 1");
  plan.arms.push_back({"z", ""});
  EXPECT_EQ(whose(plan, plan.stages[0]), "arms x and y, all seeds");
}

}  // namespace
}  // namespace moiety::host
