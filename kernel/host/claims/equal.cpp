#include "kernel/host/claims/equal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernel/base/text.h"
#include "kernel/host/claims/chosen.h"
#include "kernel/host/claims/evaluate.h"

namespace moiety::host {
namespace {

void collect_terms(const Expression& node, std::vector<const MetricTerm*>& terms) {
  if (node.kind == Expression::Kind::metric) terms.push_back(&node.metric);
  for (const auto& part : {node.left, node.right}) {
    if (part != nullptr) collect_terms(*part, terms);
  }
}

bool same_place(const MetricTerm& a, const MetricTerm& b) {
  const auto alike = [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.kind == y.second.kind && x.second.value == y.second.value;
  };
  return a.arm == b.arm && a.stage == b.stage && a.times == b.times &&
         std::equal(a.bindings.begin(), a.bindings.end(), b.bindings.begin(), b.bindings.end(), alike);
}

/// "score(clustered, k=4)"; labels that all terms share stand behind the whole.
std::string title_of(const MetricTerm& term) {
  std::vector<std::string> parts = {term.arm};
  for (const auto& [axis, bound] : term.bindings) {
    if (bound.kind == Binding::Kind::label) parts.push_back(axis + "=" + bound.value);
  }
  return term.stage + "(" + join(parts, ", ") + ")";
}

class EqualReader {
 public:
  explicit EqualReader(const Plan& plan, const Measured& counts) : plan_(plan), evaluator_(plan, counts) {}

  void read(const Claim& claim, EqualCheck& check) {
    for (const auto& [name, tolerance] : claim.equal) {
      for (const auto& statement : claim.statements) {
        if (compare(claim, statement, name, tolerance, check)) break;
      }
    }
  }

 private:
  /// What the statement measures, once for each place in the graph, with the count instead of the metric.
  std::vector<Expression> places_of(const ClaimStatement& statement, const std::vector<Loop>& loops, const std::string& name) {
    std::vector<const MetricTerm*> terms;
    collect_terms(*statement.left, terms);
    if (statement.right != nullptr) collect_terms(*statement.right, terms);
    std::vector<Expression> places;
    for (const auto* term : terms) {
      Expression node;
      node.kind = Expression::Kind::metric;
      node.metric = *term;
      node.metric.name = name;
      node.metric.cost = true;
      keep_axes(node.metric, loops);
      const bool known =
          std::any_of(places.begin(), places.end(), [&](const auto& one) { return same_place(one.metric, node.metric); });
      if (!known) places.push_back(std::move(node));
    }
    return places;
  }

  /// Bindings along the recipe's axes alone; what a function goes over is averaged.
  void keep_axes(MetricTerm& term, const std::vector<Loop>& loops) const {
    for (auto bound = term.bindings.begin(); bound != term.bindings.end();) {
      auto& [kind, value] = bound->second;
      const auto is_it = [&, wanted = value](const Loop& loop) { return loop.axis == wanted; };
      const bool loop = kind == Binding::Kind::loop || kind == Binding::Kind::other_loop;
      if (loop && std::none_of(loops.begin(), loops.end(), is_it) &&
          std::none_of(term.mean_over.begin(), term.mean_over.end(), is_it))
        bound->second = {Binding::Kind::mean, ""};
      const bool own = plan_.axes.find(bound->first) != nullptr;
      bound = own ? std::next(bound) : term.bindings.erase(bound);
    }
  }

  /// True when it was told that they differ.
  bool compare(const Claim& claim, const ClaimStatement& statement, const std::string& name, double tolerance,
               EqualCheck& check) {
    std::vector<Loop> loops = statement.quantified;
    if (!statement.along.axis.empty()) loops.push_back(statement.along);
    loops.erase(std::remove_if(loops.begin(), loops.end(), [](const Loop& loop) { return loop.labels.empty(); }), loops.end());
    const auto places = places_of(statement, loops, name);
    if (places.size() < 2) return false;
    for (const auto& cell : evaluator_.cells(loops, {}, {})) {
      for (int seed = 1; seed <= plan_.seeds; ++seed) {
        std::vector<Reading> readings;
        for (const auto& place : places) readings.push_back(evaluator_.evaluate(place, seed, cell));
        for (const auto& one : readings) {
          if (!one.problem.empty() && !one.absent) check.unknown.insert(claim.id);
        }
        for (std::size_t j = 1; j < places.size(); ++j) {
          for (std::size_t i = 0; i < j; ++i) {
            if (!comparable(places[i].metric, places[j].metric)) continue;
            if (!readings[i].problem.empty() || !readings[j].problem.empty()) continue;
            const double a = readings[i].value, b = readings[j].value, largest = std::max(std::abs(a), std::abs(b));
            if (std::abs(a - b) <= (tolerance + 1e-9) * largest) continue;
            check.problems.push_back(fmt::format(
                "claim.{}: `equal` asks for equal {} within {}%, and they differ by {:.3g}%: {:.6g} of {}, {:.6g} of {}{}",
                claim.id, name, number(tolerance * 100), 100 * std::abs(a - b) / largest, a, title_of(places[i].metric), b,
                title_of(places[j].metric), instance_text("", cell)));
            return true;
          }
        }
      }
    }
    return false;
  }

  /// Stages of different arms, or one stage of an arm at different labels; not two stages of one arm, before and after.
  static bool comparable(const MetricTerm& a, const MetricTerm& b) { return a.arm != b.arm || a.stage == b.stage; }

  const Plan& plan_;
  Evaluator evaluator_;
};

}  // namespace

EqualCheck check_equal(const std::vector<Claim>& claims, const Plan& plan, const CountsOf& counts) {
  Measured measured;
  measured.state = [](const std::string&) { return std::string(); };
  measured.final_rows = [](const std::string&) { return std::vector<registry::MetricRow>(); };
  measured.counts = counts;
  EqualReader reader(plan, measured);
  EqualCheck check;
  for (const auto& claim : claims) reader.read(claim, check);
  return check;
}

bool needs_counts(const std::vector<Claim>& claims) {
  return std::any_of(claims.begin(), claims.end(), [](const Claim& claim) {
    if (!claim.equal.empty()) return true;
    std::vector<const MetricTerm*> terms;
    for (const auto& statement : claim.statements) {
      collect_terms(*statement.left, terms);
      if (statement.right != nullptr) collect_terms(*statement.right, terms);
    }
    return std::any_of(terms.begin(), terms.end(), [](const MetricTerm* term) { return term->cost; });
  });
}

Result<std::set<std::string>> require_equal(const std::vector<Claim>& claims, const Plan& plan, const CountsOf& counts) {
  const auto reported = reported_before(plan, counts);
  if (!reported) {
    std::set<std::string> unknown;  // until it is known what was chosen
    for (const auto& claim : claims) {
      if (!claim.equal.empty()) unknown.insert(claim.id);
    }
    return unknown;
  }
  auto check = check_equal(claims, *reported, counts);
  if (check.problems.empty()) return std::move(check.unknown);
  std::string message;
  for (const auto& problem : check.problems) message += printable(problem) + "\n";
  return fail(ErrorKind::usage, message + "nothing was run",
              "a budget may be \"flops of ARM\" or \"tokens of ARM\"; `moiety recipe resolve` shows what differs");
}

}  // namespace moiety::host
