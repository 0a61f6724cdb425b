#include "kernel/engine/stages/cluster_labels.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "kernel/engine/model/model_file.h"
#include "kernel/engine/stages/validation.h"
#include "moiety/clusterer.h"

namespace moiety::engine {

at::Tensor window_tokens(const TokenStreams& streams, std::int64_t domain, std::int64_t first, std::int64_t count,
                         std::int64_t context) {
  at::Tensor tokens = at::empty({count, context}, at::kLong);
  std::vector<std::int64_t> targets(static_cast<std::size_t>(context));
  for (std::int64_t i = 0; i < count; ++i)
    streams.window(domain, first + i, context, tokens.data_ptr<std::int64_t>() + i * context, targets.data());
  return tokens;
}

at::Tensor mean_states(const Gpt& model, std::int64_t layer, const at::Tensor& tokens,
                       const std::function<bool(std::int64_t done)>& between) {
  constexpr std::int64_t batch = 16;
  const at::NoGradGuard no_gradient;
  const std::int64_t windows = tokens.size(0), length = tokens.size(1);
  at::Tensor means = at::empty({windows, model.architecture().width});
  for (std::int64_t first = 0; first < windows; first += batch) {
    const std::int64_t count = std::min(batch, windows - first);
    Batch packed;
    packed.tokens = tokens.narrow(0, first, count).reshape({-1});
    for (std::int64_t i = 0; i < count; ++i) packed.spans.add(length);
    ForwardContext forward;
    forward.watch = [&](Place place, std::int64_t where, const at::Tensor& input) {
      if (place == Place::feed_forward && where == layer)
        means.narrow(0, first, count).copy_(input.view({count, length, -1}).mean(1));
    };
    model.hidden(packed, forward);
    if (between && !between(first + count)) return {};
  }
  return means;
}

Result<std::unique_ptr<ClusterLabels>> ClusterLabels::open(const std::string& artifact, const ComponentSet& components) {
  auto clustering = Clustering::open(artifact);
  if (!clustering) return pass(clustering);
  std::unique_ptr<ClusterLabels> labels(new ClusterLabels(std::move(*clustering)));
  const Clustering& read = labels->clustering_;
  const auto& facts = read.facts();
  const auto damaged = [&](const std::string& why) {
    return fail(ErrorKind::environment, artifact + "/clusters.json is damaged: " + why);
  };
  try {
    const auto& features = facts.at("features");
    if (features.at("use") == "tf-idf") {
      labels->tf_idf_ = TfIdf{read.tensor("idf"), read.tensor("right")};
    } else {
      labels->layer_ = features.at("layer").get<std::int64_t>();
      const auto architecture = Architecture::from_json(facts.at("model"));
      if (!architecture) return pass(architecture);
      auto sites = make_sites(facts, *architecture, components, read.below("state."));
      if (!sites) return pass(sites);
      labels->model_ = std::make_unique<Gpt>(*architecture, std::move(*sites));
      if (auto status = load_tensors(*labels->model_, read.below("model.")); !status) return pass(status);
    }
    if (!facts.at("nearest").get<bool>()) {
      ConfigProblems problems;
      labels->clusterer_ = components.make("clusterer", facts.at("clusterer"), "clusterer", problems);
      if (!labels->clusterer_)
        return fail(ErrorKind::failed, "the clusterer that labels other windows cannot be made: " +
                                           (problems.empty() ? std::string("unknown") : problems.front().message));
    }
  } catch (const nlohmann::json::exception& error) {
    return damaged(error.what());
  } catch (const std::out_of_range&) {
    return damaged("tensors are missing");
  }
  return labels;
}

at::Tensor ClusterLabels::assigned(const at::Tensor& tokens) const {
  const at::NoGradGuard no_gradient;
  const at::Tensor points = tf_idf_ ? tf_idf_->points(tokens) : mean_states(*model_, layer_, tokens);
  if (!clusterer_) return nearest_centre(points, clustering_.tensor("centres"));
  Clusters clusters;
  clusters.labels = clustering_.tensor("labels");
  clusters.centres = clustering_.tensor("centres");
  clusters.radii = clustering_.tensor("radii");
  return call("assign", *clusterer_, [&] { return clusterer_->as<Clusterer>().assign(points, clusters); });
}

std::vector<std::vector<std::int64_t>> ClusterLabels::of(const TokenStreams& streams, const std::vector<std::string>& domains,
                                                         std::int64_t context, const std::vector<std::int64_t>& counts,
                                                         bool training) const {
  std::vector<std::vector<std::int64_t>> all;
  for (std::size_t d = 0; d < counts.size(); ++d) {
    std::vector<std::int64_t> labels(static_cast<std::size_t>(counts[d]), -1), open;  // open: not known yet
    for (std::int64_t i = 0; i < counts[d]; ++i) {
      std::optional<std::int64_t> known;
      if (training && context == clustering_.context()) {
        const auto [stream, index] = streams.place(static_cast<std::int64_t>(d), i, context);
        known = clustering_.label(domains[static_cast<std::size_t>(stream)], index);
      }
      if (known)
        labels[static_cast<std::size_t>(i)] = *known;
      else
        open.push_back(i);
    }
    constexpr std::size_t at_once = 1024;
    for (std::size_t first = 0; first < open.size(); first += at_once) {
      std::vector<at::Tensor> rows;
      const std::size_t last = std::min(open.size(), first + at_once);
      for (std::size_t i = first; i < last; ++i)
        rows.push_back(window_tokens(streams, static_cast<std::int64_t>(d), open[i], 1, context));
      const at::Tensor found = assigned(at::cat(rows)).contiguous();
      for (std::size_t i = first; i < last; ++i)
        labels[static_cast<std::size_t>(open[i])] = found.data_ptr<std::int64_t>()[i - first];
    }
    all.push_back(std::move(labels));
  }
  return all;
}

}  // namespace moiety::engine
