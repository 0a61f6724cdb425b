#include "kernel/engine/plugins/describe.h"
#include "kernel/engine/stages/verbs.h"

namespace moiety::engine {

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> all = {pretrain_verb(), construct_verb(), finetune_verb(), evaluate_verb(),  cluster_verb(),
                                        probe_verb(),    regress_verb(),   extract_verb(),  recompose_verb(), prune_verb()};
  return all;
}

const Verb* find_verb(const std::string& name) {
  for (const auto& verb : verbs())
    if (name == verb.name) return &verb;
  return nullptr;
}

nlohmann::json describe_verbs() {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& verb : verbs()) {
    nlohmann::json inputs = nlohmann::json::array(), parameters = nlohmann::json::array(), metrics = nlohmann::json::array(),
                   results = nlohmann::json::array();
    for (const auto& input : verb.inputs)
      inputs.push_back({{"name", input.name}, {"accepts", input.accepts}, {"required", input.required}, {"list", input.list}});
    for (const auto& parameter : verb.parameters) parameters.push_back(describe(parameter));
    for (const auto& table : verb.tables)
      parameters.push_back({{"name", table.name}, {"type", "table"}, {"default", nullptr}, {"unit", ""}, {"doc", table.doc}});
    for (const auto& metric : verb.metrics) metrics.push_back(describe(metric));
    for (const auto& result : verb.results) results.push_back(describe(result));
    list.push_back({{"name", verb.name},
                    {"summary", verb.summary},
                    {"measures", verb.measures},
                    {"leaves", verb.leaves},
                    {"inputs", inputs},
                    {"needs", {{"corpus", verb.needs_corpus}, {"task", verb.needs_task}}},
                    {"seeds", verb.seeds},
                    {"parameters", parameters},
                    {"metrics", metrics},
                    {"results", results}});
  }
  return list;
}

const std::vector<std::string>& common_keys() {
  static const std::vector<std::string> keys = {"do", "from", "task", "seed", "threads", "device", "dtype", "arms"};
  return keys;
}

}  // namespace moiety::engine
