#include "kernel/engine/model/cost.h"

#include <algorithm>

namespace moiety::engine {

void Work::add(const Spans& spans) {
  for (std::int64_t i = 0; i < spans.count(); ++i) add_sequences(1, static_cast<double>(spans.length(i)));
}

void Work::add_sequences(double count, double length) {
  tokens += count * length;
  sequences += count;
  pairs += count * length * (length + 1) / 2;
}

double dense_parameters(const Site& site, bool matrices_only) {
  double size = 0;
  for (const Role& role : layer_roles(site)) {
    if (matrices_only && role.is_bias()) continue;
    double numbers = 1;
    for (const std::int64_t side : role.shape) numbers *= static_cast<double>(side);
    size += numbers;
  }
  return size;
}

PlannedModel dense_facts(const Architecture& a) {
  PlannedModel facts;
  facts.architecture = a;
  const Site attention = site_of(a, Place::attention, 0), feed_forward = site_of(a, Place::feed_forward, 0);
  PlannedModel::SiteCost of_attention, of_feed_forward;
  of_attention.weights_of_token = dense_parameters(attention, true);
  of_feed_forward.weights_of_token = dense_parameters(feed_forward, true);
  facts.attention.assign(static_cast<std::size_t>(a.layers), of_attention);
  facts.feed_forward.assign(static_cast<std::size_t>(a.layers), of_feed_forward);
  const auto d = static_cast<double>(a.width), vocabulary = static_cast<double>(a.vocabulary);
  const double norm = a.norm == NormKind::layer && a.biases ? 2 * d : d;
  const double norms = a.block == BlockForm::parallel ? norm : 2 * norm;
  facts.total = vocabulary * d +
                static_cast<double>(a.layers) * (dense_parameters(attention) + dense_parameters(feed_forward) + norms) + norm +
                static_cast<double>(a.classes) * (d + 1);
  if (a.position == Position::learned) facts.total += static_cast<double>(a.context) * d;
  if (a.read_out == ReadOut::untied) facts.total += vocabulary * d;
  facts.active = facts.total;
  return facts;
}

PlannedModel facts_of(const Gpt& model) {
  PlannedModel facts = dense_facts(model.architecture());
  facts.total = static_cast<double>(model.parameters().total());
  facts.active = facts.total;
  const auto& entries = model.parameters().entries();
  facts.body_trains = std::any_of(entries.begin(), entries.end(),
                                  [](const auto& entry) { return entry.spec.trains && !is_read_out(entry.name); });
  for (const auto& site : model.sites()) {
    set_experts(facts, *site, model.parameters(), false);
    facts.active -= idle_parameters(*site, model.parameters(), site_prefix(site->site().place, site->site().layer));
  }
  return facts;
}

double idle_parameters(const ExpertSite& site, const ParameterStore& store, const std::string& prefix) {
  const auto experts = static_cast<double>(site.site().experts);
  const double idle = 1 - std::min(1.0, site.cost().experts_per_row / experts);
  double parameters = 0;
  if (site.site().place == Place::whole) {
    for (const auto& entry : store.entries())
      if (entry.name.rfind(prefix, 0) != 0) parameters += static_cast<double>(entry.size());
    return parameters - parameters / experts;
  }
  for (const auto& entry : store.entries()) {
    if (entry.name.rfind(prefix, 0) != 0 || entry.name.rfind(prefix + "router.", 0) == 0) continue;
    const std::string name = entry.name.substr(prefix.size());
    const bool of_bank = name.rfind("norm.", 0) != 0;
    const bool of_role = site.bank().has(name);
    if (site.bank().derives() && of_bank && !of_role)
      parameters += static_cast<double>(entry.size());  // what a row runs instead is added below
    else if (entry.spec.per_expert || (of_role && entry.spec.shape[0] == site.site().experts && site.site().experts > 1))
      parameters += idle * static_cast<double>(entry.size());
  }
  for (const auto& [role, shape] : site.bank().layout().derived) {
    double size = 1;
    for (std::size_t i = 1; i < shape.size(); ++i) size *= static_cast<double>(shape[i]);
    parameters -= size * (shape[0] == 1 ? 1 : site.cost().experts_per_row);
  }
  return parameters;
}

void set_experts(PlannedModel& model, const ExpertSite& site, const ParameterStore& store, bool found_later) {
  const Site& place = site.site();
  PlannedModel::SiteCost& to = model.site(place.place, place.layer);
  const RouterCost cost = site.cost();
  const auto d = static_cast<double>(place.width), n = static_cast<double>(place.experts);
  const double run = cost.experts_per_row;
  to.experts = found_later ? -1 : place.experts;
  to.routing_of_sequence = site.by_sequence() ? cost.multiply_adds : 0;
  if (place.place == Place::whole) return;
  if (place.place == Place::attention) {
    const bool shared = site.bank().first_dimension("k") == 1 && place.experts > 1;
    const double keys_values = shared ? 1 : site.by_sequence() ? run : n;
    to.weights_of_token = 2 * d * (d * run + static_cast<double>(place.kv_width()) * keys_values);
    to.attended = run;
  } else {
    to.weights_of_token = (place.gated() ? 3 : 2) * d * run * static_cast<double>(site.bank().neurons());
  }
  to.parameters = 0;
  for (const auto& entry : store.entries())
    if (is_of_experts(entry.name, place.place, place.layer)) to.parameters += static_cast<double>(entry.size());
  to.bank = site.bank().shape();
  to.routing_of_token = site.by_sequence() ? 0 : cost.multiply_adds;
  to.deriving = site.bank().layout().derive_multiply_adds;
}

double training_memory(const PlannedModel& model, double rows) {
  const Architecture& a = model.architecture;
  const double a_row = static_cast<double>(a.layers) * (12 * static_cast<double>(a.width) + static_cast<double>(a.inner) +
                                                        static_cast<double>(a.heads * a.context));
  constexpr double program = 250e6;  // the process with LibTorch loaded
  return program + 4 * (4 * model.total + rows * a_row);
}

namespace {

double read_out_flops(const Architecture& a, const Work& work) {
  return 2 * static_cast<double>(a.width) *
         (static_cast<double>(a.vocabulary) * work.language_read_outs + static_cast<double>(a.classes) * work.class_read_outs);
}

}  // namespace

double forward_flops(const PlannedModel& model, const Work& work) {
  const Architecture& a = model.architecture;
  const auto d = static_cast<double>(a.width);
  double per_token = 0, per_sequence = model.whole.routing_of_sequence, per_pair = 0, per_micro_batch = 0;
  const double together = work.micro_batches > 0 ? work.sequences / work.micro_batches : 0;
  for (const auto* sites : {&model.attention, &model.feed_forward}) {
    for (const auto& site : *sites) {
      per_token += site.weights_of_token + site.routing_of_token;
      per_sequence += site.routing_of_sequence;
      if (sites == &model.attention) per_pair += 2 * d * site.attended;
      if (site.deriving > 0)
        per_micro_batch += site.deriving * std::min(static_cast<double>(std::max<std::int64_t>(1, site.experts)), together);
    }
  }
  return 2 * (per_token * work.tokens + per_sequence * work.sequences + per_pair * work.pairs +
              per_micro_batch * work.micro_batches) +
         read_out_flops(a, work);
}

double training_flops(const PlannedModel& model, const Work& work) {
  const double forward = forward_flops(model, work);
  return forward + 2 * (model.body_trains ? forward : read_out_flops(model.architecture, work));
}

}  // namespace moiety::engine
