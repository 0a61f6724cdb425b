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
      {"name": "inner", "type": "integer", "default": null, "low": 1, "doc": "of the feed-forward; 4 x width when absent"},
      {"name": "activation", "type": "choice", "choices": ["gelu", "relu", "swiglu"], "default": "gelu", "doc": "of the feed-forward"}
    ],
    "verbs": [
      {"name": "pretrain", "summary": "trains on text", "measures": false, "leaves": "model",
       "inputs": [{"name": "from", "accepts": "model", "required": false, "list": false}],
       "needs": {"corpus": true, "task": false}, "seeds": ["init", "data", "noise"],
       "parameters": [
         {"name": "budget", "type": "budget", "doc": "how long"},
         {"name": "batch", "type": "integer", "default": 16, "low": 1, "unit": "windows", "doc": "windows a step"},
         {"name": "learning_rate", "type": "number", "default": 0.001, "low": 0, "low_open": true, "doc": "peak"},
         {"name": "mixing", "type": "component", "kind": "mixing_scheduler", "default": "proportional", "doc": "weights of domains"},
         {"name": "sampler", "type": "component", "kind": "sampler", "default": "uniform", "doc": "draws windows"},
         {"name": "schedule.kind", "type": "choice", "choices": ["cosine", "constant", "linear"], "default": "cosine", "doc": "of the learning rate"},
         {"name": "schedule.warmup", "type": "number", "default": 0.02, "low": 0, "high": 1, "doc": "share of the steps"},
         {"name": "optimizer.weight_decay", "type": "number", "default": 0.1, "low": 0, "doc": "of AdamW"},
         {"name": "optimizer.betas", "type": "text", "default": "0.9 0.95", "doc": "of AdamW"},
         {"name": "dropout", "type": "number", "default": 0, "low": 0, "high": 1, "high_open": true, "doc": "share"}
       ],
       "metrics": [{"name": "loss", "unit": "nat", "better": -1, "axes": []}], "results": []},
      {"name": "construct", "summary": "dense to experts", "measures": false, "leaves": "model",
       "inputs": [{"name": "from", "accepts": "model", "required": true, "list": true}],
       "needs": {"corpus": false, "task": false}, "seeds": ["init", "cluster"],
       "parameters": [
         {"name": "feed_forward.layers", "type": "layers", "default": "all", "doc": "which blocks"},
         {"name": "feed_forward.experts", "type": "component", "kind": "expert_constructor", "doc": "how experts are made"},
         {"name": "feed_forward.router", "type": "component", "kind": "router", "doc": "who chooses"}
       ],
       "metrics": [], "results": []},
      {"name": "finetune", "summary": "trains on a task", "measures": false, "leaves": "model",
       "inputs": [{"name": "from", "accepts": "model", "required": false, "list": false}],
       "needs": {"corpus": false, "task": true}, "seeds": ["init", "data", "noise"],
       "parameters": [
         {"name": "task", "type": "text", "doc": "name of a task"},
         {"name": "budget", "type": "budget", "doc": "how long"},
         {"name": "batch", "type": "integer", "default": 32, "low": 1, "doc": "items a step"},
         {"name": "learning_rate", "type": "number", "default": 0.001, "low": 0, "low_open": true, "doc": "peak"},
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
         {"name": "data.tokens", "type": "integer", "default": null, "low": 1, "doc": "a fixed subset"},
         {"name": "data.domains", "type": "texts", "default": null, "doc": "which domains"},
         {"name": "on", "type": "texts", "default": null, "doc": "sets of the task"},
         {"name": "items", "type": "integer", "default": null, "low": 1, "doc": "at most so many of each set"}
       ],
       "metrics": [
         {"name": "perplexity", "unit": "", "better": -1, "axes": ["domain"], "when": "data"},
         {"name": "loss", "unit": "nat", "better": -1, "axes": ["domain"], "when": "data"},
         {"name": "accuracy", "unit": "share", "better": 1, "axes": ["set"], "when": "on"},
         {"name": "loss", "unit": "nat", "better": -1, "axes": ["set"], "when": "on"}
       ], "results": []}
    ]})json");
}

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
          {"name": "losses.balance", "type": "number", "default": 0.01, "low": 0, "doc": "weight"}], "outputs": []},
        {"kind": "router", "name": "avg-k", "version": 1, "summary": "", "source": "", "parameters": [
          {"name": "k", "type": "integer", "default": 8, "low": 1, "doc": "experts a token"},
          {"name": "rule", "type": "choice", "choices": ["top", "bottom", "random"], "default": "top", "doc": "which"}], "outputs": []}])"),
      file("/p/split.moiety.so", "build-split", R"([
        {"kind": "expert_constructor", "name": "split", "version": 1, "summary": "", "source": "", "parameters": [
          {"name": "count", "type": "integer", "low": 2, "doc": "experts"},
          {"name": "clusterer", "type": "component", "kind": "clusterer", "default": "balanced-kmeans", "doc": "of the keys"}], "outputs": []}])"),
      file("/p/clusterers.moiety.so", "build-clusterers", R"([
        {"kind": "clusterer", "name": "balanced-kmeans", "version": 1, "summary": "", "source": "", "parameters": [
          {"name": "iterations", "type": "integer", "default": 20, "low": 1, "doc": "at most"}], "outputs": []},
        {"kind": "clusterer", "name": "random", "version": 1, "summary": "", "source": "", "parameters": [], "outputs": []}])"),
      file("/p/mixing.moiety.so", "build-mixing", R"([
        {"kind": "sampler", "name": "uniform", "version": 1, "summary": "", "source": "", "parameters": [], "outputs": []},
        {"kind": "mixing_scheduler", "name": "proportional", "version": 1, "summary": "", "source": "", "parameters": [], "outputs": []},
        {"kind": "mixing_scheduler", "name": "constant", "version": 1, "summary": "", "source": "", "parameters": [
          {"name": "weights", "type": "text", "default": null, "doc": "of domains"}], "outputs": []}])"),
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
