#include "kernel/data/text/entities.h"

#include <charconv>
#include <unordered_map>

#include "kernel/data/text/unicode.h"

namespace moiety::data {
namespace {

constexpr std::size_t kLongestReference = 32;

const std::unordered_map<std::string_view, std::string_view>& named_references() {
  static const std::unordered_map<std::string_view, std::string_view> table = {
      {"amp", "&"},     {"lt", "<"},       {"gt", ">"},     {"quot", "\""},  {"apos", "'"},   {"nbsp", " "},   {"ndash", "-"},
      {"mdash", " - "}, {"hellip", "..."}, {"lsquo", "'"},  {"rsquo", "'"},  {"ldquo", "\""}, {"rdquo", "\""}, {"copy", "(C)"},
      {"reg", "(R)"},   {"trade", "(TM)"}, {"times", "x"},  {"middot", "."}, {"bull", "*"},   {"laquo", "\""}, {"raquo", "\""},
      {"minus", "-"},   {"le", "<="},      {"ge", ">="},    {"ne", "!="},    {"rarr", "->"},  {"larr", "<-"},  {"rArr", "=>"},
      {"deg", "°"},     {"sect", "§"},     {"prime", "'"},  {"pound", "£"},  {"euro", "€"},   {"frac12", "½"}, {"shy", ""},
      {"para", ""},     {"thinsp", " "},   {"ensp", " "},   {"emsp", " "},   {"zwj", ""},     {"zwnj", ""},    {"auml", "ä"},
      {"ouml", "ö"},    {"uuml", "ü"},     {"Auml", "Ä"},   {"Ouml", "Ö"},   {"Uuml", "Ü"},   {"szlig", "ß"},  {"eacute", "é"},
      {"Eacute", "É"},  {"egrave", "è"},   {"agrave", "à"}, {"ecirc", "ê"},  {"ccedil", "ç"}, {"icirc", "î"},  {"ocirc", "ô"},
      {"ugrave", "ù"},  {"iuml", "ï"},     {"acirc", "â"},  {"oacute", "ó"}, {"aacute", "á"}, {"iacute", "í"}, {"uacute", "ú"},
      {"ntilde", "ñ"},  {"aelig", "æ"},    {"oslash", "ø"}, {"alpha", "α"},  {"beta", "β"},   {"gamma", "γ"},  {"lambda", "λ"},
      {"pi", "π"},
  };
  return table;
}

/// Appends the character that `body` (between & and ;) names; false when it names none.
bool append_reference(std::string& out, std::string_view body) {
  if (!body.empty() && body[0] == '#') {
    body.remove_prefix(1);
    const bool hexadecimal = !body.empty() && (body[0] == 'x' || body[0] == 'X');
    if (hexadecimal) body.remove_prefix(1);
    unsigned value = 0;
    const auto end = body.data() + body.size();
    const auto [stop, error] = std::from_chars(body.data(), end, value, hexadecimal ? 16 : 10);
    if (body.empty() || stop != end) return false;
    const bool character = error == std::errc() && value > 0 && value <= 0x10FFFF && !(value >= 0xD800 && value < 0xE000);
    if (character) append_code_point(out, value);
    return true;
  }
  const auto found = named_references().find(body);
  if (found == named_references().end()) return false;
  out += found->second;
  return true;
}

}  // namespace

std::string decode_entities(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t mark = text.find('&', i);
    out += text.substr(i, mark - i);
    if (mark == std::string_view::npos) break;
    const std::size_t length = text.substr(mark + 1, kLongestReference).find(';');
    if (length != std::string_view::npos && append_reference(out, text.substr(mark + 1, length))) {
      i = mark + length + 2;
    } else {
      out.push_back('&');
      i = mark + 1;
    }
  }
  return out;
}

}  // namespace moiety::data
