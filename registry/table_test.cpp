#include "registry/table.h"

#include <gtest/gtest.h>

#include <limits>

#include "registry/row_printer.h"

namespace moiety::registry {
namespace {

TEST(Table, aligns_by_columns_of_the_terminal) {
  Table table({"arm", "mean ± sd (n)", "p"});
  table.add({Cell::of_text("dense"), Cell::of_text("1.0 ± 0.1 (5)"), Cell::empty()});
  table.add({Cell::of_text("é"), Cell::of_text("2"), Cell::of_number(0.25)});
  EXPECT_EQ(table.render(Format::table),
            "arm    mean ± sd (n)     p\n"
            "dense  1.0 ± 0.1 (5)\n"
            "é      2              0.25\n");
}

TEST(Table, quotes_csv_and_disarms_formulas) {
  EXPECT_EQ(csv_cell("a,b", false), "\"a,b\"");
  EXPECT_EQ(csv_cell("say \"x\"", false), "\"say \"\"x\"\"\"");
  EXPECT_EQ(csv_cell("=cmd()", false), "'=cmd()");
  EXPECT_EQ(csv_cell("+1-2", false), "'+1-2");
  EXPECT_EQ(csv_cell("-1", false), "-1");
  EXPECT_EQ(csv_cell("-inf", true), "-inf");
  EXPECT_EQ(csv_cell("a\nb", false), "a\\nb");
}

TEST(Table, numbers_are_shown_with_the_digits_their_deviation_supports) {
  EXPECT_EQ(mean_text(0.41234, 0.0081, 5), "0.4123 ± 0.0081 (5)");
  EXPECT_EQ(mean_text(1234.5, 56.7, 3), "1234 ± 57 (3)");
  EXPECT_EQ(mean_text(0.5, 0, 3), "0.5 ± 0 (3)");
  EXPECT_EQ(mean_text(0.5, 0, 1), "0.5 (1)");
  EXPECT_EQ(mean_text(0, 0, 0), "-");
  EXPECT_EQ(rounded(0.02345, 0.012, true), "+0.023");
  EXPECT_EQ(rounded(std::numeric_limits<double>::quiet_NaN(), 1), "nan");
}

TEST(Table, lists_runs_as_ranges) {
  EXPECT_EQ(ranges({3, 1, 2, 7, 9, 8, 12}), "1-3 7-9 12");
  EXPECT_EQ(ranges({}), "");
}

TEST(Table, ages_are_rounded_for_people) {
  EXPECT_EQ(ago(5), "5 s ago");
  EXPECT_EQ(ago(14 * 60), "14 min ago");
  EXPECT_EQ(ago(3 * 3600), "3 h ago");
  EXPECT_EQ(ago(3 * 86400), "3 days ago");
}

TEST(RowPrinter, rows_after_those_held_keep_the_widths_and_wider_ones_stand_out) {
  std::string out;
  const auto append = [&](const std::string& text) {
    out += text;
    return true;
  };
  RowPrinter printer({"name", "n"}, Format::table, append, {2, 1000});
  for (const std::string name : {"a", "longer", "b", "much longer"}) {
    printer.add({Cell::of_text(name), Cell::of_integer(7)});
  }
  printer.finish();
  EXPECT_EQ(out, "name    n\na       7\nlonger  7\nb       7\nmuch longer  7\n");
}

TEST(RowPrinter, json_is_what_the_whole_table_gives) {
  Table table({"a", "a"});
  EXPECT_EQ(table.render(Format::json), json_text(table.json()));
  table.add({Cell::of_text("x\ny"), Cell::of_number(0.5)});
  EXPECT_EQ(table.render(Format::json), json_text(table.json()));
  table.add({Cell::empty(), Cell::of_integer(3)});
  EXPECT_EQ(table.render(Format::json), json_text(table.json()));
}

}  // namespace
}  // namespace moiety::registry
