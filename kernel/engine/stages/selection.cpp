#include "kernel/engine/stages/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "kernel/base/text.h"

namespace moiety::engine {
namespace {

/// Resolves names of domains and groups.
class Names {
 public:
  Names(const std::vector<std::string>& domains, const Job& job) : domains_(domains), job_(job) {}

  /// The corpus's domains behind a name; a name that means none sets the problem.
  std::set<std::int64_t> members(const std::string& name) {
    const auto group = job_.groups.find(name);
    if (group == job_.groups.end()) return plain({name});
    if (!group->second.of.empty()) return plain(group->second.of);
    std::set<std::int64_t> rest;
    for (std::size_t d = 0; d < domains_.size(); ++d) rest.insert(static_cast<std::int64_t>(d));
    for (const std::int64_t out : plain(group->second.without)) rest.erase(out);
    return rest;
  }
  std::string problem;

 private:
  std::set<std::int64_t> plain(const std::vector<std::string>& names) {
    std::set<std::int64_t> numbers;
    for (const auto& name : names) {
      const auto found = std::find(domains_.begin(), domains_.end(), name);
      if (found == domains_.end()) {
        std::vector<std::string> known = domains_;
        for (const auto& group : job_.groups) known.push_back(group.first);
        problem = fmt::format("the corpus has no domain `{}`; {}", printable(name), suggestion(name, known));
        return {};
      }
      numbers.insert(found - domains_.begin());
    }
    return numbers;
  }

  const std::vector<std::string>& domains_;
  const Job& job_;
};

std::vector<std::int64_t> tokens_of(const TokenStreams& streams) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t d = 0; d < streams.domains(); ++d) tokens.push_back(streams.pieces(d).front().tokens);
  return tokens;
}

}  // namespace

Result<Selection> select_domains(const DataSelection& data, const std::vector<std::string>& domains, const Job& job) {
  Selection selection;
  selection.tokens = data.tokens;
  selection.fraction = data.fraction;
  Names names(domains, job);
  std::set<std::int64_t> left_out;
  for (const auto& name : data.without) {
    const auto members = names.members(name);
    left_out.insert(members.begin(), members.end());
  }
  for (const auto& name : data.domains.empty() ? domains : data.domains) {
    if (std::find(selection.names.begin(), selection.names.end(), name) != selection.names.end())
      return fail(ErrorKind::failed, fmt::format("the domain `{}` is selected twice", printable(name)));
    std::vector<std::int64_t> members;
    for (const std::int64_t member : names.members(name))
      if (left_out.count(member) == 0) members.push_back(member);
    if (members.empty()) continue;
    selection.names.push_back(name);
    selection.members.push_back(std::move(members));
  }
  if (!names.problem.empty()) return fail(ErrorKind::failed, names.problem);
  if (selection.names.empty()) return fail(ErrorKind::failed, "no domain is left to read");
  return selection;
}

std::vector<Pieces> pieces_of(const Selection& selection, const std::vector<std::int64_t>& stream_tokens, std::int64_t context) {
  std::vector<Pieces> domains;
  for (const auto& members : selection.members) {
    Pieces pieces;
    for (const std::int64_t member : members) {
      const std::int64_t tokens = stream_tokens[static_cast<std::size_t>(member)];
      // The last token is only ever a target.
      const double kept = std::floor(selection.fraction * static_cast<double>(std::max<std::int64_t>(0, tokens - 1)));
      pieces.push_back({member, selection.fraction < 1 ? static_cast<std::int64_t>(kept) + 1 : tokens});
    }
    domains.push_back(std::move(pieces));
  }
  if (selection.tokens == 0) return domains;
  // Window by window to the piece that is most behind its share: whatever the number, the first ones are the same.
  struct Dealt {
    Piece* piece;
    std::int64_t windows, given;
    double carry;
  };
  std::vector<Dealt> dealt;
  double all = 0;
  for (auto& pieces : domains)
    for (Piece& piece : pieces)
      if (const std::int64_t windows = piece.windows(context); windows > 0) {
        dealt.push_back({&piece, windows, 0, 0});
        all += static_cast<double>(windows);
      }
  const std::int64_t wanted = selection.tokens / context;
  if (static_cast<double>(wanted) >= all) return domains;
  for (std::int64_t i = 0; i < wanted; ++i) {
    Dealt* due = nullptr;
    for (Dealt& one : dealt) {
      one.carry += static_cast<double>(one.windows) / all;
      if (one.given < one.windows && (due == nullptr || one.carry > due->carry)) due = &one;
    }
    due->carry -= 1;
    ++due->given;
  }
  for (auto& pieces : domains)
    for (Piece& piece : pieces) piece.tokens = std::min(piece.tokens, context);  // no window
  for (const Dealt& one : dealt)
    if (one.given > 0) one.piece->tokens = one.given * context + 1;
  return domains;
}

TokenStreams selected(const Selection& selection, const TokenStreams& streams) {
  Selection whole = selection;
  whole.tokens = 0;
  whole.fraction = 1;
  return streams.divided(pieces_of(whole, tokens_of(streams), 1));
}

TokenStreams selected(const Selection& selection, const TokenStreams& streams, std::int64_t context) {
  return streams.divided(pieces_of(selection, tokens_of(streams), context));
}

std::vector<std::int64_t> windows_of(const std::vector<Pieces>& domains, std::int64_t context) {
  std::vector<std::int64_t> counts;
  for (const auto& pieces : domains) {
    counts.push_back(0);
    for (const Piece& piece : pieces) counts.back() += piece.windows(context);
  }
  return counts;
}

}  // namespace moiety::engine
