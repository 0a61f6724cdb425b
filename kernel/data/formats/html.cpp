// HTML pages: the text of the main part, without navigation, scripts and tables of links; `pre` keeps its layout.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "kernel/data/formats/format.h"
#include "kernel/data/text/clean.h"
#include "kernel/data/text/entities.h"
#include "kernel/data/text/unicode.h"

namespace moiety::data {
namespace {

enum class Effect { none, paragraph, line, space, skip, preformatted };

Effect effect_of(std::string_view tag) {
  static const std::unordered_map<std::string_view, Effect> table = [] {
    std::unordered_map<std::string_view, Effect> effects;
    for (const auto name : {"p",          "div", "h1",      "h2",         "h3",      "h4",      "h5",      "h6",     "ul",
                            "ol",         "dl",  "table",   "blockquote", "section", "article", "header",  "main",   "figure",
                            "figcaption", "dt",  "address", "center",     "caption", "aside",   "details", "summary"})
      effects[name] = Effect::paragraph;
    for (const auto name : {"br", "hr", "li", "dd", "tr"}) effects[name] = Effect::line;
    for (const auto name : {"td", "th"}) effects[name] = Effect::space;
    for (const auto name :
         {"script", "style", "head", "nav", "footer", "form", "select", "button", "svg", "noscript", "iframe", "math"})
      effects[name] = Effect::skip;
    effects["pre"] = Effect::preformatted;
    return effects;
  }();
  const auto found = table.find(tag);
  return found == table.end() ? Effect::none : found->second;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

struct Tag {
  std::string name;
  std::string_view attributes;
  bool closing = false;
  bool empty = false;  ///< <x/>
  std::size_t end = 0;
};

constexpr std::size_t kLongestTag = 64 << 10;
constexpr std::size_t kLongestQuote = 4096;

/// Position of the `>` that ends a tag. A quoted attribute may hold one; a quote that is never closed ends with `first_close`
/// instead.
std::size_t end_of_attributes(std::string_view html, std::size_t begin, std::size_t first_close) {
  char quote = 0;
  for (std::size_t at = begin; at < html.size() && at < first_close + kLongestQuote; ++at) {
    const char c = html[at];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '>') {
      return at;
    } else if ((c == '"' || c == '\'') && at > begin && html[at - 1] == '=') {
      quote = c;
    }
  }
  return first_close;
}

/// The tag at `open`, or nothing when `<` stands for itself. Comments and declarations come back with an empty name.
std::optional<Tag> read_tag(std::string_view html, std::size_t open) {
  Tag tag;
  const auto rest = html.substr(open);
  if (rest.substr(0, 4) == "<!--") {
    const std::size_t close = html.find("-->", open + 4);
    tag.end = close == std::string_view::npos ? html.size() : close + 3;
    return tag;
  }
  std::size_t at = open + 1;
  tag.closing = at < html.size() && html[at] == '/';
  if (tag.closing) ++at;
  const std::size_t name = at;
  const auto in_name = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (at > name && c >= '0' && c <= '9');
  };
  while (at < html.size() && in_name(html[at])) ++at;
  const bool declaration = at == name && at < html.size() && (html[at] == '!' || html[at] == '?');
  if (at == name && !declaration) return std::nullopt;
  tag.name = lower(html.substr(name, at - name));
  const std::size_t attributes = at;
  const std::size_t close = html.substr(open, kLongestTag).find('>');
  if (close == std::string_view::npos) return std::nullopt;
  at = end_of_attributes(html, attributes, open + close);
  tag.attributes = html.substr(attributes, at - attributes);
  tag.empty = !tag.attributes.empty() && tag.attributes.back() == '/';
  tag.end = at + 1;
  return tag;
}

std::string_view attribute(std::string_view attributes, std::string_view name) {
  for (std::size_t at = attributes.find(name); at != std::string_view::npos; at = attributes.find(name, at + 1)) {
    const bool starts = at > 0 && (attributes[at - 1] == ' ' || attributes[at - 1] == '\n' || attributes[at - 1] == '\t');
    auto rest = attributes.substr(at + name.size());
    if (!starts || rest.size() < 2 || rest[0] != '=' || (rest[1] != '"' && rest[1] != '\'')) continue;
    const char quote = rest[1];
    rest.remove_prefix(2);
    return rest.substr(0, rest.find(quote));
  }
  return {};
}

template <std::size_t N>
bool one_of(std::string_view text, const std::array<std::string_view, N>& list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

/// Navigation bars and the like, as the common generators (Sphinx, DocBook, Texinfo, Doxygen) name them.
bool is_navigation(const Tag& tag) {
  constexpr std::array<std::string_view, 11> blocks = {"sphinxsidebar", "related",   "footer", "toc",     "TOC",    "navheader",
                                                       "navfooter",     "nav-panel", "header", "summary", "sidebar"};
  constexpr std::array<std::string_view, 5> links = {"headerlink", "permalink", "indexterm", "copiable-anchor", "copiable-link"};
  const auto kind = attribute(tag.attributes, "class");
  if (kind.empty()) return false;
  if (tag.name == "div") return one_of(kind, blocks);
  if (tag.name == "a") return one_of(kind, links);
  return tag.name == "table" && (kind.substr(0, 3) == "nav" || kind.substr(0, 4) == "head" || kind.substr(0, 4) == "foot" ||
                                 kind.substr(0, 6) == "index-");
}

bool is_main_part(const Tag& tag) {
  if (tag.closing || !one_of(tag.name, std::array<std::string_view, 4>{"div", "main", "section", "article"})) return false;
  return attribute(tag.attributes, "class") == "body" || attribute(tag.attributes, "role") == "main" ||
         attribute(tag.attributes, "itemprop") == "articleBody";
}

/// Where the text starts: the main part when it is marked, else after <body>, else at the beginning.
std::size_t start_of_text(std::string_view html) {
  std::size_t body = 0;
  for (std::size_t open = html.find('<'); open != std::string_view::npos; open = html.find('<', open)) {
    const auto tag = read_tag(html, open);
    if (!tag) {
      ++open;
      continue;
    }
    if (is_main_part(*tag)) return open;
    if (tag->name == "body" && !tag->closing && body == 0) body = tag->end;
    open = tag->end;
  }
  return body;
}

/// Text as a browser lays it out: white space collapses, blocks stand apart.
class Flow {
 public:
  void add(std::string_view text, bool verbatim) {
    for (const char c : text) {
      const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f';
      if (verbatim) {
        out_.push_back(c);
      } else if (!space) {
        out_.push_back(c);
      } else if (!out_.empty() && out_.back() != ' ' && out_.back() != '\n') {
        out_.push_back(' ');
      }
    }
  }
  void line() {
    trim_end();
    if (!out_.empty() && out_.back() != '\n') out_.push_back('\n');
  }
  void paragraph() {
    line();
    if (out_.size() > 1 && out_[out_.size() - 2] != '\n') out_.push_back('\n');
  }
  std::string take() { return std::move(out_); }

 private:
  void trim_end() {
    while (!out_.empty() && out_.back() == ' ') out_.pop_back();
  }
  std::string out_;
};

/// Position after the element that `tag` opens, its nested namesakes included.
std::size_t end_of_element(std::string_view html, const Tag& tag) {
  std::size_t depth = 1;
  std::size_t at = tag.end;
  while (depth > 0) {
    const std::size_t open = html.find('<', at);
    if (open == std::string_view::npos) return html.size();
    const auto inner = read_tag(html, open);
    at = inner ? inner->end : open + 1;
    if (!inner || inner->name != tag.name || inner->empty) continue;
    depth = inner->closing ? depth - 1 : depth + 1;
  }
  return at;
}

std::string text_of_page(std::string_view html) {
  Flow flow;
  std::size_t verbatim = 0;
  std::size_t at = start_of_text(html);
  while (at < html.size()) {
    const std::size_t open = html.find('<', at);
    flow.add(decode_entities(html.substr(at, open - at)), verbatim > 0);
    if (open == std::string_view::npos) break;
    const auto tag = read_tag(html, open);
    if (!tag) {
      flow.add("<", true);
      at = open + 1;
      continue;
    }
    at = tag->end;
    const Effect effect = effect_of(tag->name);
    if (!tag->closing && !tag->empty && (effect == Effect::skip || is_navigation(*tag))) {
      at = end_of_element(html, *tag);
      flow.add(" ", false);
      continue;
    }
    if (effect == Effect::paragraph) flow.paragraph();
    if (effect == Effect::line) flow.line();
    if (effect == Effect::space) flow.add(" ", false);
    if (effect == Effect::preformatted) {
      flow.paragraph();
      verbatim = tag->closing ? verbatim - std::min<std::size_t>(verbatim, 1) : verbatim + 1;
    }
  }
  return flow.take();
}

Result<std::vector<Entry>> extract_html(const std::string& path, const Files& files) {
  const auto bytes = content_of(path, files);
  if (!bytes) return pass(bytes);
  return std::vector<Entry>{{text_of_page(to_utf8(*bytes)), {}, {}}};
}

}  // namespace

const Format kHtml = {"html", "HTML pages, navigation left out", extract_html};

}  // namespace moiety::data
