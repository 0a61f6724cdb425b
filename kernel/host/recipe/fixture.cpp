#include "kernel/host/recipe/fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "kernel/base/text.h"

namespace moiety::host::testing {

nlohmann::json describe_json() {
  return nlohmann::json::parse(R"json({
    "worker": {"version": "0.1.0", "build_id": "worker-1", "torch_version": "1.13.1", "torch_build_id": "torch-1", "sdk": "1", "results_revision": 1, "cpu": "test"},
    "model": [
      {"name": "family", "type": "choice", "choices": ["gpt"], "default": "gpt", "doc": "architecture"},
      {"name": "layers", "type": "integer", "low": 1, "high": 256, "doc": "blocks"},
      {"name": "width", "type": "integer", "low": 1, "doc": "of the residual stream"},
      {"name": "heads", "type": "integer", "low": 1, "doc": "of attention"},
      {"name": "context", "type": "integer", "low": 2, "doc": "tokens of a window"},
      {"name": "feed_forward_width", "type": "integer", "default": null, "low": 1, "doc": "of the feed-forward; 4 x width when absent"},
      {"name": "activation", "type": "choice", "choices": ["gelu", "relu", "swiglu"], "default": "gelu", "doc": "of the feed-forward"},
      {"name": "position", "type": "choice", "choices": ["learned", "rotary"], "default": "learned", "doc": "of a token"},
      {"name": "block", "type": "choice", "choices": ["sequential", "parallel"], "default": "sequential", "doc": "its two parts"}
    ],
    "verbs": [
      {"name": "pretrain", "summary": "trains on text", "measures": false, "leaves": "model",
       "inputs": [{"name": "from", "accepts": "model", "required": false, "list": false}],
       "needs": {"corpus": true, "task": false}, "seeds": ["init", "data", "noise"],
       "parameters": [
         {"name": "budget", "type": "budget", "doc": "how long"},
         {"name": "batch", "type": "integer", "default": 16, "low": 1, "unit": "windows", "doc": "windows a step"},
         {"name": "learning_rate", "type": "number", "default": 0.001, "low": 0, "low_open": true, "doc": "peak"},
         {"name": "data", "type": "data", "default": null, "doc": "which text"},
         {"name": "continues", "type": "bool", "default": false, "doc": "goes on where the stage read stopped"},
         {"name": "mixing", "type": "component", "kind": "mixing_scheduler", "default": "proportional", "doc": "weights of domains"},
         {"name": "sampler", "type": "component", "kind": "sampler", "default": "uniform", "doc": "draws windows"},
         {"name": "schedule.kind", "type": "choice", "choices": ["cosine", "constant", "linear"], "default": "cosine", "doc": "of the learning rate"},
         {"name": "schedule.warmup", "type": "number", "default": 0.02, "low": 0, "high": 1, "doc": "share of the steps"},
         {"name": "schedule.decay", "type": "choice", "choices": ["cosine", "linear", "none"], "default": "cosine", "doc": "how the rate goes on"},
         {"name": "train.all", "type": "bool", "default": false, "doc": "everything"},
         {"name": "train.head", "type": "bool", "default": false, "doc": "the read-out alone"},
         {"name": "train.lora.rank", "type": "integer", "low": 1, "doc": "of the adapters"},
         {"name": "train", "type": "table", "default": null, "doc": "what trains"},
         {"name": "train.lora", "type": "table", "default": null, "doc": "low-rank adapters"},
         {"name": "optimizer.use", "type": "choice", "choices": ["adamw", "sgd"], "default": "adamw", "doc": "which one"},
         {"name": "optimizer.learning_rate", "type": "number", "default": null, "low": 0, "doc": "peak, in place of the stage's"},
         {"name": "optimizer.weight_decay", "type": "number", "default": 0.1, "low": 0, "doc": "of AdamW"},
         {"name": "optimizer.betas", "type": "text", "default": "0.9 0.95", "doc": "of AdamW"},
         {"name": "dropout", "type": "number", "default": 0, "low": 0, "high": 1, "high_open": true, "doc": "share"}
       ],
       "metrics": [{"name": "loss", "unit": "nat", "better": -1, "axes": []}], "results": [{"name": "valid_loss", "unit": "nat"}]},
      {"name": "construct", "summary": "dense to experts", "measures": false, "leaves": "model",
       "inputs": [{"name": "from", "accepts": "model", "required": false, "list": true}],
       "needs": {"corpus": false, "task": false}, "seeds": ["init", "cluster"],
       "parameters": [
         {"name": "feed_forward.layers", "type": "layers", "default": "all", "doc": "which blocks"},
         {"name": "feed_forward.experts", "type": "component", "kind": "expert_constructor", "doc": "how experts are made"},
         {"name": "feed_forward.router", "type": "component", "kind": "router", "doc": "who chooses"},
         {"name": "feed_forward", "type": "table", "default": null, "doc": "feed-forward experts"},
         {"name": "whole.experts", "type": "component", "kind": "expert_constructor", "doc": "how many models there are"},
         {"name": "whole.router", "type": "component", "kind": "router", "doc": "who chooses"},
         {"name": "whole", "type": "table", "default": null, "doc": "whole models as experts"},
         {"name": "attention.layers", "type": "layers", "default": "all", "doc": "which blocks"},
         {"name": "attention.experts", "type": "component", "kind": "expert_constructor", "doc": "how experts are made"},
         {"name": "attention.router", "type": "component", "kind": "router", "doc": "who chooses"},
         {"name": "attention", "type": "table", "default": null, "doc": "attention experts"},
         {"name": "rest", "type": "choice", "choices": ["average", "first"], "default": "average", "doc": "of what has no experts"},
         {"name": "calibrate.windows", "type": "integer", "default": 1024, "low": 1, "doc": "that clusterer and router see"},
         {"name": "calibrate.split", "type": "choice", "choices": ["train", "valid"], "default": "train", "doc": "of which part"},
         {"name": "calibrate.dimensions", "type": "integer", "default": 64, "low": 1, "doc": "of what is clustered"}
       ],
       "metrics": [], "results": [{"name": "clusters", "unit": "experts"}, {"name": "sizes", "unit": "share"}]},
      {"name": "finetune", "summary": "trains on a task", "measures": false, "leaves": "model",
       "inputs": [{"name": "from", "accepts": "model", "required": false, "list": false},
                  {"name": "teacher", "accepts": "model", "required": false, "list": false}],
       "needs": {"corpus": false, "task": false}, "seeds": ["init", "data", "noise"],
       "parameters": [
         {"name": "task", "type": "text", "default": null, "doc": "name of a task"},
         {"name": "data", "type": "data", "default": null, "doc": "which text, without a task"},
         {"name": "distill.weight", "type": "number", "default": 0.5, "low": 0, "high": 1, "doc": "of the teacher"},
         {"name": "distill.temperature", "type": "number", "default": 1, "low": 0, "low_open": true, "doc": "of both"},
         {"name": "distill", "type": "table", "default": null, "doc": "learning from a teacher"},
         {"name": "budget", "type": "budget", "doc": "how long"},
         {"name": "batch", "type": "integer", "default": 32, "low": 1, "doc": "items a step"},
         {"name": "learning_rate", "type": "number", "default": 0.001, "low": 0, "low_open": true, "doc": "peak"},
         {"name": "train.all", "type": "bool", "default": false, "doc": "everything"},
         {"name": "train.head", "type": "bool", "default": false, "doc": "the read-out alone"},
         {"name": "train.lora.rank", "type": "integer", "low": 1, "doc": "of the adapters"},
         {"name": "train", "type": "table", "default": null, "doc": "what trains"},
         {"name": "train.lora", "type": "table", "default": null, "doc": "low-rank adapters"},
         {"name": "unit_dropout", "type": "number", "default": 0, "low": 0, "high": 1, "high_open": true, "doc": "share of the neurons"},
         {"name": "item_tokens", "type": "integer", "default": 0, "low": 0, "doc": "first tokens of an item; all when 0"},
         {"name": "patience", "type": "integer", "default": null, "low": 1, "doc": "evaluations without a better one"},
         {"name": "schedule.warmup", "type": "number", "default": 0.05, "low": 0, "high": 1, "doc": "share of the steps"},
         {"name": "schedule.kind", "type": "choice", "choices": ["cosine", "constant", "linear"], "default": "cosine", "doc": "of the learning rate"},
         {"name": "best", "type": "bool", "default": true, "doc": "keep the best on the validation split"}
       ],
       "metrics": [{"name": "valid_accuracy", "unit": "share", "better": 1, "axes": []}], "results": []},
      {"name": "evaluate", "summary": "measures", "measures": true, "leaves": "none",
       "inputs": [{"name": "from", "accepts": "model", "required": true, "list": false}],
       "needs": {"corpus": true, "task": false}, "seeds": [],
       "parameters": [
         {"name": "data.split", "type": "choice", "choices": ["test", "valid"], "default": "test", "doc": "which text"},
         {"name": "data", "type": "data", "default": null, "doc": "which text"},
         {"name": "on", "type": "sets", "default": null, "doc": "sets of the task, or label and data"},
         {"name": "at", "type": "texts", "default": null, "doc": "points of the training of the stage read"},
         {"name": "ignore_first", "type": "integer", "default": 0, "low": 0, "doc": "tokens of a window"},
         {"name": "windows", "type": "integer", "default": null, "low": 1, "doc": "at most so many"},
         {"name": "items", "type": "integer", "default": null, "low": 1, "doc": "at most so many of each set"}
       ],
       "metrics": [
         {"name": "perplexity", "unit": "", "better": -1, "axes": ["domain"], "when": "data"},
         {"name": "loss", "unit": "nat", "better": -1, "axes": ["domain"], "when": "data"},
         {"name": "accuracy", "unit": "share", "better": 1, "axes": ["set"], "when": "on"},
         {"name": "loss", "unit": "nat", "better": -1, "axes": ["set"], "when": "on"}
       ], "results": []},
      {"name": "cluster", "summary": "clusters text", "measures": false, "leaves": "clustering",
       "inputs": [{"name": "from", "accepts": "model", "required": false, "list": false}],
       "needs": {"corpus": true, "task": false}, "seeds": ["cluster"],
       "parameters": [
         {"name": "data", "type": "data", "default": null, "doc": "which text"},
         {"name": "features.use", "type": "choice", "choices": ["tf-idf", "states"], "default": "tf-idf", "doc": "of a window"},
         {"name": "features.dimensions", "type": "integer", "default": 100, "low": 1, "doc": "of what is clustered"},
         {"name": "clusterer", "type": "component", "kind": "clusterer", "default": "k-means", "doc": "makes the clusters"}
       ],
       "metrics": [], "results": [{"name": "count", "unit": "clusters"}, {"name": "sizes", "unit": "share"}]},
      {"name": "extract", "summary": "one expert as a dense model", "measures": false, "leaves": "model",
       "inputs": [{"name": "from", "accepts": "model", "required": true, "list": false}],
       "needs": {"corpus": true, "task": false}, "seeds": [],
       "parameters": [
         {"name": "expert", "type": "text", "default": "most-frequent", "doc": "which"},
         {"name": "data", "type": "data", "default": null, "doc": "by which it is chosen"}
       ],
       "metrics": [], "results": [{"name": "expert", "unit": ""}]},
      {"name": "recompose", "summary": "experts as the dense model they are parts of", "measures": false, "leaves": "model",
       "inputs": [{"name": "from", "accepts": "model", "required": true, "list": false}],
       "needs": {"corpus": false, "task": false}, "seeds": [], "parameters": [], "metrics": [], "results": []},
      {"name": "prune", "summary": "keeps the experts used most", "measures": false, "leaves": "model",
       "inputs": [{"name": "from", "accepts": "model", "required": true, "list": false},
                  {"name": "usage", "accepts": "model", "required": true, "list": false}],
       "needs": {"corpus": false, "task": false}, "seeds": [],
       "parameters": [{"name": "keep", "type": "integer", "low": 1, "doc": "experts of each site"}], "metrics": [], "results": []},
      {"name": "probe", "summary": "asks a model", "measures": true, "leaves": "none",
       "inputs": [{"name": "from", "accepts": "model", "required": true, "list": false}],
       "needs": {"corpus": true, "task": false}, "seeds": ["data"],
       "parameters": [
         {"name": "probe", "type": "component", "kind": "probe", "doc": "what is asked"},
         {"name": "data", "type": "data", "default": null, "doc": "on which text"},
         {"name": "at", "type": "texts", "default": null, "doc": "points of the training of the stage read"}
       ],
       "metrics": [], "results": []}
    ]})json");
}

namespace {

/// "router label clusters:input?clustering by:choice=auto/auto,domain !weights": a component, its parameters, its results. Behind
/// the type of a parameter stands its default (`=`), `?` for an optional one, and then what a component, an input or a choice is
/// of.
nlohmann::json component_of(const std::string& line) {
  const auto words = split(line, ' ');
  nlohmann::json one = {{"kind", words[0]}, {"name", words[1]}, {"version", 1}, {"summary", ""}, {"source", ""}};
  one["parameters"] = nlohmann::json::array();
  one["outputs"] = nlohmann::json::array();
  for (std::size_t i = 2; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word[0] == '!') {
      one["outputs"].push_back({{"name", word.substr(1)}, {"unit", "share"}, {"result", true}});
      continue;
    }
    if (word[0] == '+') {
      one["outputs"].push_back({{"name", word.substr(1, word.find('/') - 1)}, {"unit", ""}});
      if (word.find('/') != std::string::npos) one["outputs"].back()["axes"] = split(word.substr(word.find('/') + 1), ',');
      continue;
    }
    const auto colon = word.find(':'), slash = word.find('/');
    const auto end = std::min(slash, word.size()), mark = std::min(word.find_first_of("=?", colon), end);
    nlohmann::json parameter = {{"name", word.substr(0, colon)}, {"type", word.substr(colon + 1, mark - colon - 1)}, {"doc", ""}};
    if (mark != end) {
      const std::string text = word.substr(mark + 1, end - mark - 1);
      const auto value = nlohmann::json::parse(text, nullptr, false);
      parameter["default"] = word[mark] == '?' ? nlohmann::json() : value.is_discarded() ? nlohmann::json(text) : value;
    }
    if (slash != std::string::npos) {
      const std::string of = word.substr(slash + 1);
      if (parameter["type"] == "component") parameter["kind"] = of;
      if (parameter["type"] == "input") parameter["accepts"] = of;
      if (parameter["type"] == "choice") parameter["choices"] = split(of, ',');
    }
    one["parameters"].push_back(std::move(parameter));
  }
  return one;
}

nlohmann::json components_of_studies() {
  auto list = nlohmann::json::array();
  for (const char* line :
       {"router soft",
        "router uniform",
        "router linear init:choice=normal/normal,keys",
        "router cosine dimensions:integer=256",
        "router expert-choice capacity_factor:number=2",
        "router key-similarity",
        "router oracle-activation",
        "router activation-mlp epochs:integer=30",
        "router label clusters:input?/clustering by:choice=automatic/automatic,cluster,domain",
        "router nearest-centre clusterer:component=dbscan/clusterer view:choice=window/window,prefix prefix:integer=32 "
        "level:choice=sequence/sequence,token momentum:number=0.99",
        "expert_constructor copy count:integer=0",
        "expert_constructor merge seed_copies:integer=0 "
        "weights:choice=own/own,average,first",
        "expert_constructor attention keys_values:choice=own/own,shared weights:choice=own/own,average,first count:integer=0",
        "expert_constructor projected count:integer bank:integer=8 code:integer=16",
        "clusterer k-means count:integer=0 restarts:integer=4",
        "clusterer dbscan radius:text=knee min_points:integer=0 at_least:integer=2 at_most:integer=16",
        "sampler by-cluster clusters:input/clustering",
        "sampler capped epochs:number=4",
        "sampler cluster-importance clusters:input/clustering target:data epochs:number=0 keep:integer=0 +repeats",
        "mixing_scheduler uniform",
        "mixing_scheduler temperature temperature:number=3.3",
        "mixing_scheduler unimax epochs:number=4",
        "mixing_scheduler replay of:text share:number=0.1",
        "mixing_scheduler block-shift weights:shares? domain:text shift:number length:budget?",
        "mixing_scheduler lie-bracket weights:shares? target:text= every:integer=100 +score/domain",
        "mixing_scheduler doremi reference:input/model step:number=1 smoothing:number=0.001 !weights !last_weights "
        "+weight_change",
        "probe gradient-consistency of:texts? share:number=0.1 windows:integer=64 !peak +value/part",
        "probe gradient-consistency-by-rarity bins:integer=8 windows:integer=64 +value/bin +frequency/bin",
        "probe lie-bracket bracket:choice=plain/plain,preconditioned batches:integer=16 domain:text shift:number=0.2 "
        "length:budget? +change/domain +p/domain +integral/domain"}) {
    list.push_back(component_of(line));
  }
  return list;
}

}  // namespace

std::vector<nlohmann::json> probed_json() {
  const auto file = [](const std::string& path, const std::string& build_id, const std::string& components) {
    return nlohmann::json{{"path", path},
                          {"size", 1},
                          {"mtime_ns", 1},
                          {"build_id", build_id},
                          {"plugin", {{"name", "p"}, {"version", "1.0.0"}, {"summary", ""}}},
                          {"components", nlohmann::json::parse(components)}};
  };
  return {
      file("/p/routers.moiety.so", "build-routers", R"([
        {"kind": "router", "name": "top-k", "version": 1, "summary": "", "source": "", "parameters": [
          {"name": "k", "type": "integer", "default": 2, "low": 1, "doc": "experts a token"},
          {"name": "capacity_factor", "type": "number", "default": 1.25, "low": 1, "doc": "room"},
          {"name": "active", "type": "number", "default": null, "low": 0, "high": 1, "doc": "share of the experts"},
          {"name": "score", "type": "component", "kind": "router", "default": "linear", "doc": "gives every expert a number"},
          {"name": "gate", "type": "choice", "choices": ["softmax", "renormalised", "straight-through", "one"], "default": "softmax", "doc": "weights"},
          {"name": "losses.balance", "type": "number", "default": 0.01, "low": 0, "doc": "weight"},
          {"name": "losses.z", "type": "number", "default": 0, "low": 0, "doc": "weight"}], "outputs": [{"name": "balance", "unit": "", "loss": true}]},
        {"kind": "router", "name": "avg-k", "version": 1, "summary": "", "source": "", "parameters": [
          {"name": "k", "type": "integer", "default": 8, "low": 1, "doc": "experts a token"},
          {"name": "rule", "type": "choice", "choices": ["top", "bottom", "not-top", "random", "fixed"], "default": "top", "doc": "which"},
          {"name": "losses.balance", "type": "number", "default": 0, "low": 0, "doc": "weight"}], "outputs": [{"name": "balance", "unit": "", "loss": true}]}])"),
      file("/p/split.moiety.so", "build-split", R"([
        {"kind": "expert_constructor", "name": "split", "version": 1, "summary": "", "source": "", "parameters": [
          {"name": "count", "type": "integer", "default": null, "low": 2, "doc": "experts"},
          {"name": "size", "type": "integer", "default": null, "low": 1, "doc": "neurons of an expert"},
          {"name": "points", "type": "choice", "choices": ["keys", "co-activations"], "default": "keys", "doc": "of a neuron"},
          {"name": "clusterer", "type": "component", "kind": "clusterer", "default": "balanced-kmeans", "doc": "of the keys"}], "outputs": []}])"),
      file("/p/clusterers.moiety.so", "build-clusterers", R"([
        {"kind": "clusterer", "name": "balanced-kmeans", "version": 1, "summary": "", "source": "", "parameters": [
          {"name": "iterations", "type": "integer", "default": 20, "low": 1, "doc": "at most"}], "outputs": []},
        {"kind": "clusterer", "name": "random", "version": 1, "summary": "", "source": "", "parameters": [], "outputs": []}])"),
      file("/p/mixing.moiety.so", "build-mixing", R"([
        {"kind": "sampler", "name": "uniform", "version": 1, "summary": "", "source": "", "parameters": [], "outputs": []},
        {"kind": "mixing_scheduler", "name": "proportional", "version": 1, "summary": "", "source": "", "parameters": [], "outputs": []},
        {"kind": "mixing_scheduler", "name": "constant", "version": 1, "summary": "", "source": "", "parameters": [
          {"name": "weights", "type": "shares", "default": null, "doc": "of domains"}], "outputs": []}])"),
      file("/p/studies.moiety.so", "build-studies", components_of_studies().dump()),
      nlohmann::json{{"path", "/p/broken.moiety.so"}, {"error", "built for LibTorch 2.6.0, this is 1.13.1"}},
  };
}

const Catalog& fixture_catalog() {
  static const Catalog* catalog = [] {
    auto* made = new Catalog(*Catalog::from_json(describe_json(), probed_json()));
    made->folders = {"/p", "/usr/lib/moiety"};
    return made;
  }();
  return *catalog;
}

std::string small_recipe() {
  return R"toml([recipe]
name = "small"
seeds = 3
baseline = "dense"

[corpus]
use = "debian-8"

[model]
layers = 2
width = 32
heads = 2
context = 64

[stage.pretrained]
do = "pretrain"
budget = "1.2M tokens"
seed = 1

[stage.split]
do = "construct"
from = "pretrained"
feed_forward.experts = { use = "split", count = 16, clusterer = "balanced-kmeans" }
feed_forward.router = { use = "avg-k", k = 8 }

[stage.language]
do = "evaluate"
from = "split"
data = { tokens = "64k" }

[stage.tuned]
do = "finetune"
from = "split"
task = "supersense"
budget = "15k examples"

[stage.score]
do = "evaluate"
from = "tuned"
on = ["test"]

[arm]
dense = { stage.language.from = "pretrained", stage.tuned.from = "pretrained" }
clustered = {}

[claim.better]
that = "accuracy(clustered) > accuracy(dense)"
)toml";
}

std::string small_recipe_with(const std::string& line, const std::string& replacement) {
  std::string text = small_recipe();
  const auto at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  if (at != std::string::npos) text.replace(at, line.size(), replacement);
  return text;
}

Loaded::Loaded(const std::string& text, std::vector<Override> overrides, const Catalog& catalog)
    : catalog_(catalog), recipe_(fail(ErrorKind::failed, "not loaded")) {
  const TemporaryFolder folder;
  const std::string path = folder / "recipe.toml";
  EXPECT_TRUE(write_file(path, text).has_value());
  LoadOptions options;
  options.overrides = std::move(overrides);
  recipe_ = load_recipe(path, catalog, options);
  if (recipe_) return;
  // The folder's name differs each time.
  Error error = recipe_.error();
  const std::string prefix = folder.path() + "/";
  for (auto at = error.message.find(prefix); at != std::string::npos; at = error.message.find(prefix))
    error.message.erase(at, prefix.size());
  recipe_ = tl::unexpected<Error>(error);
}

void expect_golden(const std::string& path, const std::string& text) {
  if (std::getenv("MOIETY_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(write_file(path, text).has_value());
    return;
  }
  const auto expected = read_file(path);
  ASSERT_TRUE(expected.has_value()) << path << " is missing";
  EXPECT_EQ(text, *expected);
}

InFolder::InFolder(const std::string& folder) : before_(std::filesystem::current_path()) {
  std::filesystem::current_path(std::string(MOIETY_SOURCE_FOLDER) + "/" + folder);
}
InFolder::~InFolder() { std::filesystem::current_path(before_); }

Plan Loaded::plan(const PreparedData& prepared) const {
  EXPECT_TRUE(good()) << error();
  return good() ? build_plan(recipe(), catalog_, prepared) : Plan{};
}

}  // namespace moiety::host::testing
