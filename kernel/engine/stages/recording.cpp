#include "kernel/engine/stages/recording.h"

#include <ATen/ATen.h>

#include "kernel/engine/stages/validation.h"

namespace moiety::engine {

Recording::Recording(const Gpt& model, const TokenStreams& streams, const std::vector<Where>& places, std::int64_t windows,
                     std::int64_t dimensions, const std::function<bool(std::int64_t done, std::int64_t all)>& between) {
  constexpr std::int64_t batch = 16;
  const at::NoGradGuard no_gradient;
  const std::int64_t context = model.architecture().context, width = model.architecture().width;
  FixedWindows each;
  for (const auto& [domain, count] : proportional_windows(streams, context, windows))
    for (std::int64_t i = 0; i < count; ++i) each.emplace_back(domain, i);
  windows_ = static_cast<std::int64_t>(each.size());
  for (const Where& where : places) {
    places_[where].inputs = at::empty({windows_, context, width});
    places_[where].projected = dimensions;
  }
  for (std::int64_t first = 0; first < windows_; first += batch) {
    const std::int64_t count = std::min(batch, windows_ - first);
    const WindowBatch packed = pack_windows(streams, context, {each.begin() + first, each.begin() + first + count});
    ForwardContext forward;
    forward.watch = [&](Place place, std::int64_t layer, const at::Tensor& input) {
      const auto wanted = places_.find({place, layer});
      if (wanted != places_.end())
        wanted->second.inputs.narrow(0, first, count).copy_(input.view({count, context, width}).to(at::kFloat));
    };
    model.hidden(packed.batch, forward);
    if (between && !between(first + count, windows_)) return;
  }
  complete_ = true;
}

}  // namespace moiety::engine
