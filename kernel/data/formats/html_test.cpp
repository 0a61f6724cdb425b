#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/data/testing/fixtures.h"
#include "kernel/data/text/clean.h"

namespace moiety::data {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string page(const std::string& html) { return normalise(texts_of(kHtml.extract("x.html", {{"x.html", html}})).at(0)); }

TEST(Html, paragraphs_stand_apart_and_white_space_collapses) {
  EXPECT_EQ(page("<html><head><title>no</title></head><body><h1>Owls</h1><p>They <b>fly</b>\n   "
                 "at&nbsp;night.</p><p>Quietly<br>so.</p></body></html>"),
            "Owls\n\nThey fly at night.\n\nQuietly\nso.");
}

TEST(Html, scripts_comments_and_navigation_go_with_their_content) {
  const std::string text = page(
      "<body><div class=\"toc\"><div>inner</div>links</div><nav>menu</nav><!-- secret > --><script>if (a < b) x();</script>"
      "<p>kept</p><table class=\"navbar\"><tr><td>next</td></tr></table><a class=\"headerlink\" href=\"#\">anchor</a></body>");
  EXPECT_EQ(text, "kept");
}

TEST(Html, the_marked_main_part_is_all_that_is_read) {
  EXPECT_EQ(page("<body><p>banner</p><div class=\"body\" role=\"main\"><p>text</p></div>"), "text");
}

TEST(Html, preformatted_text_keeps_its_layout) {
  EXPECT_EQ(page("<p>so:</p><pre>a\n  b &lt; c</pre><p>end</p>"), "so:\n\na\n  b < c\n\nend");
}

TEST(Html, list_items_are_lines_and_cells_are_words) {
  EXPECT_EQ(page("<ul><li>one</li><li>two</li></ul><table><tr><td>a</td><td>b</td></tr></table>"), "one\ntwo\n\na b");
}

TEST(Html, a_lone_angle_bracket_is_text) { EXPECT_EQ(page("<p>1 < 2 and <3</p>"), "1 < 2 and <3"); }

TEST(Html, quoted_attributes_may_hold_angle_brackets) { EXPECT_EQ(page("<p title=\"a > b\">x</p>"), "x"); }

TEST(Html, other_encodings_are_read) { EXPECT_EQ(page("<p>caf\xE9</p>"), "café"); }

TEST(Html, hostile_pages_end_quickly) {
  for (const char* piece : {"<a", "<nav>", "<!--", "<pre>", "<p title=\"", "&#", "</"}) {
    std::string html;
    for (int i = 0; i < 20000; ++i) html += piece;
    page(html);
  }
  expect_survives_damage(kHtml, "x.html.gz",
                         {{"x.html.gz", gzip_file("<body><p class=\"a\">one &amp; two</p><pre>x</pre></body>")}});
  expect_survives_damage(kHtml, "x.html",
                         {{"x.html", "<body><!-- a --><p class=\"a\">one &amp; two</p><script>x</script></body>"}});
}

TEST(Html, an_unclosed_element_does_not_swallow_the_text_before_it) {
  EXPECT_THAT(page("<p>before</p><nav>menu"), HasSubstr("before"));
  EXPECT_THAT(page("<p>before</p><nav>menu"), Not(HasSubstr("menu")));
}

}  // namespace
}  // namespace moiety::data
