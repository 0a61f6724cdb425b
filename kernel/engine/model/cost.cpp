#include "kernel/engine/model/cost.h"

namespace moiety::engine {

void Work::add(const Spans& spans) {
  for (std::int64_t i = 0; i < spans.count(); ++i) add_sequences(1, static_cast<double>(spans.length(i)));
}

void Work::add_sequences(double count, double length) {
  tokens += count * length;
  sequences += count;
  pairs += count * length * (length + 1) / 2;
}

PlannedModel dense_facts(const Architecture& a) {
  PlannedModel facts;
  facts.architecture = a;
  const auto layers = static_cast<std::size_t>(a.layers);
  facts.experts.assign(layers, 0);
  facts.neurons.assign(layers, static_cast<double>(a.inner));
  facts.routing_of_token.assign(layers, 0);
  facts.routing_of_sequence.assign(layers, 0);
  const auto d = static_cast<double>(a.width), f = static_cast<double>(a.inner);
  const double layer = 4 * d * d + 4 * d + 2 * d * f + f + d + 4 * d;
  facts.total = static_cast<double>(a.vocabulary + a.context) * d + static_cast<double>(a.layers) * layer + 2 * d +
                static_cast<double>(a.classes) * (d + 1);
  facts.active = facts.total;
  return facts;
}

PlannedModel facts_of(const Gpt& model) {
  PlannedModel facts = dense_facts(model.architecture());
  facts.total = static_cast<double>(model.parameters().total());
  facts.active = facts.total;
  for (const auto& site : model.sites()) {
    if (!site) continue;
    const RouterCost cost = site->cost();
    set_experts(facts, site->site().layer, site->site().experts, site->neurons(), cost, site->by_sequence());
    const double idle = 1 - cost.experts_per_row / static_cast<double>(site->site().experts);
    const std::string prefix = model.site_prefix(site->site().layer);
    for (const auto& entry : model.parameters().entries()) {
      const bool role = entry.name == prefix + "in" || entry.name == prefix + "out" || entry.name == prefix + "in_bias" ||
                        (entry.name == prefix + "out_bias" && entry.spec.shape[0] != 1);
      if (role) facts.active -= idle * static_cast<double>(entry.size());
    }
  }
  return facts;
}

void set_experts(PlannedModel& model, std::int64_t layer, std::int64_t experts, std::int64_t neurons, const RouterCost& cost,
                 bool by_sequence) {
  const auto i = static_cast<std::size_t>(layer);
  model.experts[i] = experts;
  model.neurons[i] = cost.experts_per_row * static_cast<double>(neurons);
  model.routing_of_token[i] = by_sequence ? 0 : cost.multiply_adds;
  model.routing_of_sequence[i] = by_sequence ? cost.multiply_adds : 0;
}

double training_memory(const PlannedModel& model, double rows) {
  const Architecture& a = model.architecture;
  const double a_row = static_cast<double>(a.layers) * (12 * static_cast<double>(a.width) + static_cast<double>(a.inner) +
                                                        static_cast<double>(a.heads * a.context));
  constexpr double program = 250e6;  // the process with LibTorch loaded
  return program + 4 * (4 * model.total + rows * a_row);
}

double forward_flops(const PlannedModel& model, const Work& work) {
  const Architecture& a = model.architecture;
  const auto d = static_cast<double>(a.width);
  double per_token = 0, per_sequence = 0;
  for (std::size_t i = 0; i < model.experts.size(); ++i) {
    per_token += 4 * d * d + 2 * d * model.neurons[i] + model.routing_of_token[i];
    per_sequence += model.routing_of_sequence[i];
  }
  const double attention = 2 * d * work.pairs * static_cast<double>(a.layers);
  const double read_out =
      d * (static_cast<double>(a.vocabulary) * work.language_read_outs + static_cast<double>(a.classes) * work.class_read_outs);
  return 2 * (per_token * work.tokens + per_sequence * work.sequences + attention + read_out);
}

}  // namespace moiety::engine
