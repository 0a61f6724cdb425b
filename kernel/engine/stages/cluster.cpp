// cluster: windows of training text, divided by what they hold or by what a model makes of them.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "kernel/engine/model/dense_expert.h"
#include "kernel/engine/stages/cluster_labels.h"
#include "kernel/engine/stages/options.h"
#include "kernel/engine/stages/selection.h"
#include "kernel/engine/stages/stage_model.h"
#include "kernel/engine/stages/stage_report.h"
#include "kernel/engine/stages/training_text.h"
#include "kernel/engine/stages/verbs.h"
#include "moiety/clusterer.h"

namespace moiety::engine {
namespace clustering {
MOIETY_CHOICE(Features, tf_idf, states);
}
namespace {

using clustering::Features;

struct ClusterOptions {
  DataSelection data;
  Features features = Features::tf_idf;
  std::int64_t dimensions = 0, layer = 0, window = 0, count = 0;
  std::shared_ptr<Clusterer> clusterer;
};

constexpr Parameter parameters[] = {
    optional<&ClusterOptions::data>("data", "which training text is divided; all when left out"),
    param<&ClusterOptions::features>("features.use", Features::tf_idf,
                                     "what is compared: tf-idf of the tokens in few dimensions, or states of the model read"),
    param<&ClusterOptions::dimensions>("features.dimensions", 100, "of tf-idf").range(1, 10000),
    param<&ClusterOptions::layer>("features.layer", -1,
                                  "states: what enters this layer's feed-forward, the mean over a window; -1: the last layer")
        .at_least(-1),
    param<&ClusterOptions::window>("window", 0, "tokens of a window; 0: the context of the model read").at_least(0).in("tokens"),
    param<&ClusterOptions::count>("count", 0, "clusters; 0: the clusterer says how many").at_least(0),
    param<&ClusterOptions::clusterer>("clusterer", "k-means", "how the windows are divided")};

constexpr Output metrics[] = {metric("inertia", "", 0, "sum of the squared distances of windows to the centre of their cluster"),
                              metric("noise", "share", 0, "share of the windows that are in no cluster"),
                              metric("largest", "share", 0, "share of the windows that are in the largest cluster")};
constexpr Output results[] = {result("count", "", "how many clusters there are"),
                              result("sizes", "windows", "windows of each cluster, by its number")};

std::string window_problem() { return "how long is a window? Without a model to read its context from, `window` must say it"; }

/// Tokens of a window; 0: nobody says it. `context`: of the model read, or 0.
std::int64_t window_length(const ClusterOptions& options, const Job& job, std::int64_t context) {
  if (options.window > 0) return options.window;
  if (context > 0 || !job.model.is_object()) return context;
  return job.model.value("context", std::int64_t{0});
}

/// Radii and sizes of what a clusterer found; -1 is noise.
void measure(const at::Tensor& points, Clusters& found, std::int64_t count, at::Tensor& sizes) {
  const at::Tensor in = found.labels >= 0, labels = found.labels.masked_select(in);
  sizes = labels.bincount({}, count).narrow(0, 0, count);
  if (!found.centres.defined()) {
    found.centres = at::zeros({count, points.size(1)}, points.options());
    const at::Tensor members = points.index_select(0, in.nonzero().view({-1}));
    found.centres.index_add_(0, labels, members).div_(sizes.clamp_min(1).unsqueeze(1));
  }
  if (!found.radii.defined()) {
    const at::Tensor members = points.index_select(0, in.nonzero().view({-1}));
    const at::Tensor distances = (members - found.centres.index_select(0, labels)).norm(2, 1);
    found.radii = at::zeros({count}, points.options()).index_add_(0, labels, distances).div_(sizes.clamp_min(1));
  }
}

Result<StageOutcome> run(StageContext& context) {
  const Job& job = context.job;
  auto read = stage_options<ClusterOptions>(parameters, job, context.components);
  if (auto status = read.status(); !status) return pass(status);
  const ClusterOptions& options = read.values;
  auto corpus = TrainingCorpus::open(job.corpus, job.corpus_fraction);
  if (!corpus) return pass(corpus);
  const auto& facts = corpus->facts();
  StageOutcome outcome;
  std::unique_ptr<Gpt> model;
  if (job.input("from") != nullptr) {
    auto start = starting_model(context, facts.vocabulary, {});
    if (!start) return pass(start);
    model = std::move(start->model);
  }
  const bool states = options.features == Features::states;
  if (states && !model) return fail(ErrorKind::usage, "features.use: states are those of a model, so `from` must name one");
  const std::int64_t length = window_length(options, job, model ? model->architecture().context : 0);
  if (length == 0) return fail(ErrorKind::usage, window_problem());
  if (states && length > model->architecture().context)
    return fail(ErrorKind::usage, fmt::format("window: the model's context is {}", model->architecture().context));
  const auto selection = select_domains(options.data, facts.domains, job);
  if (!selection) return pass(selection);
  const TokenStreams streams = selected(*selection, corpus->streams(TrainingSplit::train), length);

  std::vector<at::Tensor> parts;
  std::vector<Clustering::Part> places;
  for (std::int64_t d = 0; d < streams.domains(); ++d) {
    parts.push_back(window_tokens(streams, d, 0, streams.windows(d, length), length));
    for (const Piece& piece : streams.pieces(d))
      places.push_back({facts.domains[static_cast<std::size_t>(piece.stream)], piece.windows(length)});
  }
  const at::Tensor tokens = at::cat(parts);
  const std::int64_t windows = tokens.size(0);
  if (windows < 2) return fail(ErrorKind::failed, "there are not two windows to divide");
  TensorMap kept;
  nlohmann::json described = {{"features", {{"use", states ? "states" : "tf-idf"}}}};
  at::Tensor points;
  const Random random = Random(static_cast<std::uint64_t>(job.seeds.cluster)).fork("cluster");
  if (states) {
    const std::int64_t layers = model->architecture().layers, layer = options.layer < 0 ? layers - 1 : options.layer;
    if (layer >= layers) return fail(ErrorKind::usage, fmt::format("features.layer: the model has {} layers", layers));
    points = mean_states(*model, layer, tokens, [&](std::int64_t done) {
      context.protocol.progress("examples", static_cast<double>(done), static_cast<double>(windows), 0, "states");
      return context.stop.load() == 0;
    });
    if (!points.defined()) {
      outcome.ending = Ending::interrupted;
      return outcome;
    }
    described["features"]["layer"] = layer;
    described["model"] = model->architecture().to_json();
    described["sites"] = describe_sites(*model);
    for (const auto& [name, tensor] : tensors_of(*model)) kept["model." + name] = tensor.detach();
    for (const auto& [name, tensor] : state_of_sites(*model)) kept["state." + name] = tensor;
    Work work;
    work.add_sequences(static_cast<double>(windows), static_cast<double>(length));
    const PlannedModel cost = facts_of(*model);
    outcome.cost = {work.tokens, forward_flops(cost, work), cost.total, cost.active, 0};
  } else {
    const std::int64_t most = std::min(windows, facts.vocabulary);
    if (options.dimensions > most)
      return fail(ErrorKind::usage, fmt::format("features.dimensions: {} windows of {} words have {} dimensions at most", windows,
                                                facts.vocabulary, most));
    const TfIdf made = TfIdf::fit(tokens, facts.vocabulary, options.dimensions, random.fork("svd"));
    points = made.points(tokens);
    described["features"]["dimensions"] = options.dimensions;
    kept["idf"] = made.idf;
    kept["right"] = made.right;
  }

  const Instance& clusterer = read.part("clusterer");
  Clusters found =
      call("fit", clusterer, [&] { return clusterer.as<Clusterer>().fit(points, options.count, random.fork("clusters")); });
  const auto refuse = [&](const std::string& what) { throw ComponentFailure(clusterer.name, "fit", what); };
  if (!found.labels.defined() || found.labels.scalar_type() != at::kLong || found.labels.dim() != 1 ||
      found.labels.size(0) != windows)
    refuse("there is not one label for each window");
  const std::int64_t count =
      std::max(found.labels.max().item<std::int64_t>() + 1, found.centres.defined() ? found.centres.size(0) : std::int64_t{0});
  if (count < 1) refuse("there is no cluster");
  if (options.count > 0 && count != options.count) refuse(fmt::format("there are {} clusters, not {}", count, options.count));
  at::Tensor sizes;
  measure(points, found, count, sizes);
  const at::Tensor by_clusterer = call("assign", clusterer, [&] { return clusterer.as<Clusterer>().assign(points, found); });
  described["nearest"] = at::equal(by_clusterer, nearest_centre(points, found.centres));
  described["clusterer"] = clusterer.config;
  kept["labels"] = found.labels.contiguous();
  kept["centres"] = found.centres.to(at::kFloat).contiguous();
  kept["radii"] = found.radii.to(at::kFloat).contiguous();
  kept["sizes"] = sizes.contiguous();
  outcome.files = Clustering(described, kept, length, places).files();

  nlohmann::json of_clusters = nlohmann::json::object();
  for (std::int64_t c = 0; c < count; ++c) of_clusters[std::to_string(c)] = sizes[c].item<std::int64_t>();
  outcome.results = {{"count", count}, {"sizes", of_clusters}};
  const auto in_all = static_cast<double>(windows);
  context.series.log("inertia", 0, found.inertia);
  context.series.log("noise", 0, static_cast<double>((found.labels < 0).sum().item<std::int64_t>()) / in_all);
  context.series.log("largest", 0, static_cast<double>(sizes.max().item<std::int64_t>()) / in_all);
  report_all(clusterer, context.series, outcome.results, 0);
  return outcome;
}

CheckResult check(const CheckContext& context) {
  CheckResult result;
  const Job& job = context.job;
  auto read = stage_options<ClusterOptions>(parameters, job, context.components);
  result.problems = read.problems;
  const bool states = read.values.features == Features::states, has_model = job.input("from") != nullptr;
  if (states && !has_model) result.problems.push_back({"features.use", "states are those of a model, so `from` must name one"});
  if (!has_model && window_length(read.values, job, 0) == 0) result.problems.push_back({"window", window_problem()});
  if (!result.problems.empty()) return result;
  std::optional<PlannedModel> model;
  if (has_model) model = planned_starting_model(context, 0, {}, result.problems);
  if (model && states && model->whole.experts != 0) result.problems.push_back({"from", whole_models});
  const auto facts = planned_corpus(job, result.problems);
  if (!facts) return result;
  const std::int64_t length = window_length(read.values, job, model ? model->architecture.context : 0);
  const auto text = planned_text(*facts, read.values.data, job, std::max<std::int64_t>(1, length), result.problems);
  if (!text) return result;
  if (model && states) {
    Work work;
    work.add_sequences(static_cast<double>(text->all_windows()), static_cast<double>(length));
    result.cost = {work.tokens, forward_flops(*model, work), model->total, model->active, training_memory(*model, 0)};
  }
  for (const auto& part : read.parts) check_all(part, Facts{}, part.slot, result.problems);
  return result;
}

}  // namespace

Verb cluster_verb() {
  return {"cluster",
          "divides windows of training text by their words or by a model's states",
          false,
          "clustering",
          {{"from", "model", false}},
          true,
          false,
          {"cluster"},
          parameters,
          metrics,
          results,
          &run,
          &check};
}

}  // namespace moiety::engine
