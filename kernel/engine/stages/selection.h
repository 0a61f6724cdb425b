// Which text a stage reads: domains as its `data` selects them, groups joined, and cut to so many tokens.
#ifndef MOIETY_KERNEL_ENGINE_STAGES_SELECTION_H_
#define MOIETY_KERNEL_ENGINE_STAGES_SELECTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/engine/data/corpus.h"
#include "kernel/engine/worker/job.h"
#include "moiety/params.h"

namespace moiety::engine {

struct Selection {
  std::vector<std::string> names;                  ///< of the domains as the stage knows them: the corpus's, and groups
  std::vector<std::vector<std::int64_t>> members;  ///< the corpus's domains that each is made of, ascending
  std::int64_t tokens = 0;                         ///< at most so many; 0: all
  double fraction = 1;
};

/// Without `data`: all domains of the corpus. What cannot be is an error of kind `failed` that names near domains.
Result<Selection> select_domains(const DataSelection& data, const std::vector<std::string>& domains, const Job& job);

/// What each selected domain is made of, where the corpus's streams have so many tokens. `tokens` are dealt out by windows, in
/// proportion to what there is: fewer are a prefix of more, in every domain.
std::vector<Pieces> pieces_of(const Selection& selection, const std::vector<std::int64_t>& stream_tokens, std::int64_t context);

/// The whole text of the selected domains in another split: for validation.
TokenStreams selected(const Selection& selection, const TokenStreams& streams);
/// With `tokens` and `fraction`.
TokenStreams selected(const Selection& selection, const TokenStreams& streams, std::int64_t context);

/// Windows of each.
std::vector<std::int64_t> windows_of(const std::vector<Pieces>& domains, std::int64_t context);

}  // namespace moiety::engine

#endif  // MOIETY_KERNEL_ENGINE_STAGES_SELECTION_H_
