#include "kernel/engine/stages/classification.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace moiety::engine {

ItemBatch pack_items(const Items& items, std::int64_t longest, const std::vector<std::int64_t>& chosen) {
  ItemBatch packed;
  for (const std::int64_t item : chosen) packed.batch.spans.add(std::min(longest, items.length(item)));
  packed.batch.tokens = at::empty({packed.batch.spans.rows()}, at::kLong);
  packed.labels = at::empty({static_cast<std::int64_t>(chosen.size())}, at::kLong);
  auto* token = packed.batch.tokens.data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const auto span = static_cast<std::int64_t>(i);
    const std::uint16_t* from = items.tokens(chosen[i]);
    std::copy(from, from + packed.batch.spans.length(span), token + packed.batch.spans.begin(span));
    packed.labels.data_ptr<std::int64_t>()[i] = items.label(chosen[i]);
  }
  return packed;
}

at::Tensor class_loss(const at::Tensor& logits, const at::Tensor& labels) {
  return at::nll_loss(at::log_softmax(logits, 1), labels);
}

std::vector<ItemResult> classify(const ClassLogits& logs_of, std::int64_t longest, const Items& items,
                                 const std::vector<std::int64_t>& chosen, const std::function<bool(std::int64_t done)>& between) {
  constexpr std::size_t batch = 64;
  const at::NoGradGuard no_gradient;
  std::vector<ItemResult> results;
  results.reserve(chosen.size());
  for (std::size_t first = 0; first < chosen.size(); first += batch) {
    const std::vector<std::int64_t> part(chosen.begin() + static_cast<std::ptrdiff_t>(first),
                                         chosen.begin() + static_cast<std::ptrdiff_t>(std::min(chosen.size(), first + batch)));
    const ItemBatch packed = pack_items(items, longest, part);
    const at::Tensor logs = logs_of(packed);
    const at::Tensor predictions = logs.argmax(1), losses = at::nll_loss(logs, packed.labels, {}, at::Reduction::None);
    for (std::size_t i = 0; i < part.size(); ++i)
      results.push_back({part[i], items.label(part[i]), predictions.data_ptr<std::int64_t>()[i],
                         static_cast<double>(losses.data_ptr<float>()[i])});
    if (between && !between(static_cast<std::int64_t>(results.size()))) break;
  }
  return results;
}

std::vector<ItemResult> classify(const Gpt& model, const Items& items, const std::vector<std::int64_t>& chosen,
                                 const std::function<bool(std::int64_t done)>& between) {
  const ClassLogits logs = [&model](const ItemBatch& packed) {
    ForwardContext forward;
    return at::log_softmax(model.class_logits(packed.batch, forward), 1);
  };
  return classify(logs, model.architecture().longest_item(), items, chosen, between);
}

ClassScore score(const std::vector<ItemResult>& results) {
  ClassScore sum;
  for (const auto& result : results) {
    sum.accuracy += result.label == result.prediction ? 1 : 0;
    sum.loss += result.loss;
  }
  const auto n = static_cast<double>(results.size());
  return {sum.accuracy / n, sum.loss / n};
}

std::vector<std::int64_t> fixed_items(const Items& items, std::int64_t count) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(items.count()));
  std::iota(all.begin(), all.end(), 0);
  if (count == 0 || count >= items.count()) return all;
  Random(0).fork("validation items").shuffle(all);
  all.resize(static_cast<std::size_t>(count));
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace moiety::engine
