// `moiety plugins`: what was found where, what failed and why, and the parameters of one component or verb.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "kernel/base/text.h"
#include "kernel/host/command/command.h"
#include "kernel/host/discovery/discovery.h"
#include "kernel/host/discovery/locate.h"

namespace moiety::host {
namespace {

Result<Discovery> look(const Arguments& arguments) {
  auto worker = find_worker();
  if (!worker) return pass(worker);
  DiscoveryOptions options;
  options.worker = *worker;
  options.store = store_path(arguments.value("store"));
  options.order = search_order(arguments.values("plugin-path"), {});
  options.rescan = arguments.has("rescan");
  auto found = discover(options);
  if (found) found->cache.save(true);
  return found;
}

std::string columns(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::size_t widest = 0;
  for (const auto& row : rows) widest = std::max(widest, width(row.first));
  std::string text;
  for (const auto& [left, right] : rows)
    text += "  " + left + std::string(right.empty() ? 0 : widest - width(left) + 2, ' ') + right + "\n";
  return text;
}

int list(const Arguments& arguments) {
  const auto found = look(arguments);
  if (!found) return complain(found.error());
  auto components = found->catalog.components;
  std::sort(components.begin(), components.end(), [](const auto& a, const auto& b) {
    return std::tie(a.kind, a.name, a.version) < std::tie(b.kind, b.name, b.version);
  });
  std::vector<std::pair<std::string, std::string>> rows;
  const bool verbose = arguments.has("verbose");
  for (const auto& c : components) rows.emplace_back(printable(c.kind + "/" + c.use()), printable(c.summary));
  put(rows.empty() ? "no components\n" : columns(rows));
  if (!found->catalog.failures.empty())
    put(fmt::format("\n{} file{} cannot be used:\n", found->catalog.failures.size(),
                    found->catalog.failures.size() == 1 ? "" : "s"));
  for (const auto& failure : found->catalog.failures)
    put("  " + printable(failure.file) + ": " + printable(failure.reason) + "\n");
  if (!verbose) {
    if (rows.empty()) put("`moiety plugins -v` tells which folders were searched\n");
    return 0;
  }
  put("\nfrom:\n");
  rows.clear();
  for (const auto& c : components)
    rows.emplace_back(printable(c.kind + "/" + c.use()),
                      printable(c.file) + (c.build_id.empty() ? "" : ", build " + printable(c.build_id.substr(0, 12))));
  put(columns(rows));
  if (!found->shadowed.empty()) put("\nhidden by the same component earlier in the search order:\n");
  for (const auto& s : found->shadowed)
    put("  " + printable(s.component + " of " + s.file + ": " + s.by + " comes first") + "\n");
  put("\nsearched, in order:\n");
  rows.clear();
  for (const auto& folder : found->folders)
    rows.emplace_back(printable(folder.path),
                      printable(folder.origin) + ": " +
                          (folder.problem.empty() ? fmt::format("{} file{}", folder.files, folder.files == 1 ? "" : "s")
                                                  : printable(folder.problem)));
  put(columns(rows));
  const auto& catalog = found->catalog;
  put("\nworker " + catalog.worker_version + ", LibTorch " + catalog.torch_version + "\n");
  return 0;
}

std::string type_text(const ParameterDeclaration& p) {
  std::string text = p.type == "component" ? p.kind : p.type;
  if (p.type == "input") text = "a stage" + (p.accepts.empty() ? "" : " that leaves a " + p.accepts);
  if (p.type == "data") text = "a selection of text: domains, without, tokens, fraction";
  if (p.type == "shares") text = "a table of names and shares";
  if (p.type == "sets") text = "names of sets, or a table of labels and selections of text";
  if (!p.choices.empty()) text = join(p.choices, " | ");
  if (p.low) text += fmt::format(" {} {}", p.low_open ? ">" : ">=", number(*p.low));
  if (p.high) text += fmt::format(" {} {}", p.high_open ? "<" : "<=", number(*p.high));
  return text;
}

std::string parameters_text(const std::vector<ParameterDeclaration>& parameters) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const auto& p : parameters) {
    std::string right = type_text(p);
    if (p.required)
      right += ", required";
    else if (!p.fallback.is_null())
      right += ", default " + (p.fallback.is_string() ? p.fallback.get<std::string>() : p.fallback.dump());
    if (!p.unit.empty()) right += " (" + p.unit + ")";
    if (!p.doc.empty()) right += ": " + p.doc;
    rows.emplace_back(printable(p.name), printable(right));
  }
  return rows.empty() ? "  none\n" : columns(rows);
}

std::string outputs_text(const std::vector<OutputDeclaration>& outputs) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const auto& o : outputs) {
    std::string right = o.unit;
    if (o.better != 0) right += std::string(right.empty() ? "" : ", ") + (o.better > 0 ? "higher is better" : "lower is better");
    if (!o.axes.empty()) right += std::string(right.empty() ? "" : ", ") + "per " + join(o.axes, ", ");
    if (!o.doc.empty()) right += (right.empty() ? "" : ": ") + o.doc;
    rows.emplace_back(printable(o.name), printable(right));
  }
  return columns(rows);
}

std::string inputs_text(const std::vector<InputDeclaration>& inputs) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const auto& one : inputs) {
    rows.emplace_back(printable(one.name), printable(std::string(one.list ? "a stage, or a list of stages" : "a stage") +
                                                     (one.accepts.empty() ? "" : " that leaves a " + one.accepts) +
                                                     (one.required ? ", required" : "")));
  }
  return columns(rows);
}

/// Under a title, what of these outputs is a result for other stages, or what is not; nothing when there is none.
std::string titled(const std::string& title, std::vector<OutputDeclaration> outputs, bool results) {
  outputs.erase(std::remove_if(outputs.begin(), outputs.end(), [&](const auto& one) { return one.is_result != results; }),
                outputs.end());
  return outputs.empty() ? "" : "\n" + title + ":\n" + outputs_text(outputs);
}

int info(const Arguments& arguments) {
  const auto found = look(arguments);
  if (!found) return complain(found.error());
  const auto& catalog = found->catalog;
  const auto& wanted = arguments.words()[0];
  if (wanted == "model") {
    put("[model]: the architecture of every model that starts fresh\n\nparameters:\n" + parameters_text(catalog.model));
    return 0;
  }
  if (const auto* verb = catalog.verb(wanted)) {
    put(printable("do = \"" + verb->name + "\": " + verb->summary) + "\n");
    if (!verb->inputs.empty()) put("\nreads:\n" + inputs_text(verb->inputs));
    put("\nparameters:\n" + parameters_text(verb->parameters));
    if (!verb->metrics.empty()) put("\nmetrics:\n" + outputs_text(verb->metrics));
    if (!verb->results.empty()) put("\nresults, for other stages to mention as ${NAME.result}:\n" + outputs_text(verb->results));
    return 0;
  }
  const auto slash = wanted.find('/');
  const auto* component =
      slash == std::string::npos ? nullptr : catalog.component(wanted.substr(0, slash), wanted.substr(slash + 1));
  if (component == nullptr) {
    std::vector<std::string> names = catalog.verb_names();
    names.emplace_back("model");
    for (const auto& c : catalog.components) names.push_back(c.kind + "/" + c.name);
    std::string hint = did_you_mean(wanted, names);
    if (hint.empty()) hint = "`moiety plugins` lists the components";
    for (const auto& failure : catalog.failures)
      hint += "\n  failed: " + printable(failure.file) + ": " + printable(failure.reason);
    return complain(
        {ErrorKind::usage,
         "there is no component or verb `" + printable(wanted) + "`; searched: " + printable(join(catalog.folders, ", ")), hint});
  }
  put(printable(component->kind + "/" + component->use()) +
      (component->summary.empty() ? "" : ": " + printable(component->summary)) + "\n");
  if (!component->source.empty()) put("source: " + printable(component->source) + "\n");
  put("plugin: " + printable(component->plugin + " " + component->plugin_version + ", " + component->file) + "\n");
  put("\nparameters:\n" + parameters_text(component->parameters));
  put(titled("metrics and losses", component->outputs, false));
  put(titled("results of the stage that uses it, for other stages to mention as ${NAME.result}", component->outputs, true));
  return 0;
}

const std::vector<OptionSpec> kOptions = {{"plugin-path", "DIR", "search here first; may be given several times", true},
                                          {"rescan", "", "ask every file again, whatever is remembered of it"}};

}  // namespace

std::vector<Subcommand> plugin_commands() {
  auto listing = kOptions;
  listing.insert(listing.begin(), {"verbose", "", "(-v) files, builds, what hides what, and the folders searched"});
  std::vector<Subcommand> commands = {{"plugins", "", "components that plugins bring, and files that failed",
                                       "Only files named *.moiety.so are looked at, each once, in a process of its own.",
                                       "moiety plugins -v", listing, 0, 0, list},
                                      {"plugins info", "KIND/NAME", "parameters of a component, of a stage's verb, or of [model]",
                                       "", "moiety plugins info router/top-k", kOptions, 1, 1, info}};
  return commands;
}

}  // namespace moiety::host
