// The table of verdicts along an axis, row by row. Comparisons are in registry/statistics_test.cpp.
#include "kernel/host/claims/verdicts.h"

#include <gtest/gtest.h>

namespace moiety::host {
namespace {

using registry::Verdict;

/// Five units around each of these means; `noise` times −2 … 2, in another order at each label.
Course around(const std::vector<double>& means, double noise) {
  Course course;
  for (std::size_t label = 0; label < means.size(); ++label) {
    std::vector<double> values;
    for (std::size_t unit = 0; unit < 5; ++unit)
      values.push_back(means[label] + noise * (static_cast<double>((unit * (label + 1) + label) % 5) - 2));
    course.at.push_back(values);
  }
  return course;
}

Course with(Course course, double by, double within) {
  course.by = by;
  course.within = within;
  return course;
}

struct CourseCase {
  const char* what;
  Relation relation;
  Course course;
  Verdict verdict;
};

TEST(CourseVerdicts, the_table_of_forms_along_an_axis) {
  const std::vector<CourseCase> cases = {
      {"rises: the last lies above the first", Relation::rises, around({1, 2, 3}, 0.01), Verdict::supported},
      {"rises: the last lies below the first", Relation::rises, around({3, 2, 1}, 0.01), Verdict::refuted},
      {"rises: up, but a step falls", Relation::rises, around({1, 4, 3}, 0.01), Verdict::refuted},
      {"rises: a step falls within", Relation::rises, with(around({1, 4, 3}, 0.01), 0, 1.5), Verdict::supported},
      {"rises: a step may fall, nobody knows", Relation::rises, around({1, 2, 1.99, 3}, 0.05), Verdict::supported},
      {"rises: the whole way is not clear", Relation::rises, around({1, 1.01, 1.02}, 0.1), Verdict::undecided},
      {"rises by: far enough", Relation::rises, with(around({1, 2, 3}, 0.01), 1.5, 0), Verdict::supported},
      {"rises by: not far enough", Relation::rises, with(around({1, 2, 3}, 0.01), 2.5, 0), Verdict::refuted},
      {"falls: the last lies below the first", Relation::falls, around({3, 2, 1}, 0.01), Verdict::supported},
      {"falls: a step rises", Relation::falls, around({3, 1, 2}, 0.01), Verdict::refuted},
      {"peaks: an inner label lies above both ends", Relation::peaks, around({1, 3, 2}, 0.01), Verdict::supported},
      {"peaks by: not far enough above an end", Relation::peaks, with(around({1, 3, 2}, 0.01), 1.5, 0), Verdict::undecided},
      {"peaks: an end lies above every inner label", Relation::peaks, around({1, 2, 3}, 0.01), Verdict::refuted},
      {"peaks: an end lies above some inner label", Relation::peaks, around({3, 1, 3.005, 1}, 0.01), Verdict::undecided},
      {"peaks: no label stands out", Relation::peaks, around({1, 1.01, 1}, 0.1), Verdict::undecided},
      {"dips: an inner label lies below both ends", Relation::dips, around({3, 1, 2}, 0.01), Verdict::supported},
      {"dips: an end lies below every inner label", Relation::dips, around({3, 2, 1}, 0.01), Verdict::refuted},
      {"stays: largest − smallest lies below", Relation::stays, with(around({1, 1.1, 1}, 0.01), 0, 0.5), Verdict::supported},
      {"stays: largest − smallest lies above", Relation::stays, with(around({1, 2, 1}, 0.01), 0, 0.5), Verdict::refuted},
      {"stays: the margin lies inside the interval", Relation::stays, with(around({1, 1.5, 1}, 0.1), 0, 0.5), Verdict::undecided},
  };
  for (const auto& one : cases) EXPECT_EQ(decide_course(one.relation, one.course, 0.95, false), one.verdict) << one.what;
}

Course counted_course(const std::vector<double>& counts, double by = 0, double within = 0) {
  Course course;
  for (const double count : counts) course.at.push_back({count});
  course.by = by;
  course.within = within;
  course.exact = true;
  return course;
}

TEST(CourseVerdicts, counts_need_one_unit_and_are_never_undecided) {
  const auto verdict = [](Relation relation, const Course& course) { return decide_course(relation, course, 0.95, false); };
  EXPECT_EQ(verdict(Relation::rises, counted_course({1, 2, 2, 3})), Verdict::supported) << "a step that stays does not fall";
  EXPECT_EQ(verdict(Relation::rises, counted_course({1, 3, 2, 4})), Verdict::refuted);
  EXPECT_EQ(verdict(Relation::rises, counted_course({1, 1})), Verdict::refuted);
  EXPECT_EQ(verdict(Relation::falls, counted_course({3, 2, 1}, 2)), Verdict::refuted) << "2 is not above 2";
  EXPECT_EQ(verdict(Relation::dips, counted_course({3, 1, 2})), Verdict::supported);
  EXPECT_EQ(verdict(Relation::peaks, counted_course({1, 2, 3})), Verdict::refuted);
  EXPECT_EQ(verdict(Relation::peaks, counted_course({2, 1, 2, 1})), Verdict::refuted) << "an end that is as high is no peak";
  EXPECT_EQ(verdict(Relation::stays, counted_course({1, 2, 1}, 0, 1)), Verdict::supported);
  EXPECT_EQ(verdict(Relation::stays, counted_course({1, 3, 1}, 0, 1)), Verdict::refuted);
}

TEST(CourseVerdicts, an_inner_label_is_chosen_on_the_other_units) {
  // Each unit has its own best inner label: chosen by itself every unit would see a peak.
  Course course;
  course.at = {{0.5, 0.5, 0.5}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0.5, 0.5, 0.5}};
  for (const double value : course_values(Relation::peaks, course)) EXPECT_EQ(value, -0.5);
  EXPECT_NE(decide_course(Relation::peaks, course, 0.95, false), Verdict::supported);
}

TEST(CourseVerdicts, all_seeds_must_agree) {
  Course course = around({1, 2, 3}, 0.01);
  EXPECT_EQ(decide_course(Relation::rises, course, 0.95, true), Verdict::supported);
  course.at.back()[2] = 0.5;
  EXPECT_EQ(decide_course(Relation::rises, course, 0.95, true), Verdict::undecided);
}

}  // namespace
}  // namespace moiety::host
