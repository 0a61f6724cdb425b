#include "kernel/data/corpus/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "kernel/base/files.h"
#include "kernel/base/hash.h"
#include "kernel/base/text.h"
#include "kernel/data/corpus/token_files.h"
#include "kernel/data/formats/format.h"
#include "kernel/data/text/unicode.h"

namespace moiety::data {
namespace {

bool any_matches(const std::vector<std::string>& patterns, std::string_view path) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const auto& pattern) { return matches(pattern, path); });
}

bool any_in(const std::vector<std::string>& labels, const std::vector<std::string>& list) {
  return std::any_of(labels.begin(), labels.end(),
                     [&](const auto& label) { return std::find(list.begin(), list.end(), label) != list.end(); });
}

bool admits(const Source& source, const Entry& entry) {
  if (!source.labels.empty() && !any_in(entry.labels, source.labels)) return false;
  return !any_in(entry.labels, source.without_labels);
}

Result<DomainText> build_domain(const Domain& domain, double characters, std::size_t document_bytes,
                                const std::map<std::string, Package>& packages, std::set<std::string>& seen, const Split& split) {
  DomainText text;
  text.name = domain.name;
  DocumentBuilder builder(document_bytes);
  for (const auto& source : domain.sources) {
    const auto package = packages.find(source.package);
    if (package == packages.end()) return fail(ErrorKind::failed, "the package " + source.package + " was not fetched");
    const auto entries = extract_source(source, package->second);
    if (!entries) return pass(entries);
    const auto left = characters - static_cast<double>(builder.counts().kept);
    auto room = static_cast<std::size_t>(std::max(0.0, std::min(left, source.share * characters)));
    for (const auto& entry : *entries) {
      if (room == 0) break;
      room -= std::min(room, builder.add(entry.text, find_format(source.format)->keeps_layout, room));
    }
    text.packages.push_back(package->second);
  }
  text.counts = builder.counts();
  auto documents = builder.finish();
  documents.erase(std::remove_if(documents.begin(), documents.end(),
                                 [&](const auto& document) { return !seen.insert(sha256(document)).second; }),
                  documents.end());
  const auto parts = split_documents(documents.size(), split);
  for (std::size_t i = 0; i < documents.size(); ++i)
    text.documents[static_cast<std::size_t>(parts[i])].push_back(std::move(documents[i]));
  for (const Part part : kParts) {
    if (text.of(part).empty())
      return fail(ErrorKind::failed, fmt::format("the domain {} has no document for its {} part", domain.name, name_of(part)));
  }
  return text;
}

/// Encodes the documents of one part; an error names the first document that does not survive.
Result<TokenSequences> encode_documents(const DomainText& domain, Part part, const Tokenizer& tokenizer) {
  TokenSequences sequences;
  const auto& documents = domain.of(part);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    auto tokens = tokenizer.encode(documents[i]);
    if (tokenizer.decode(tokens) != documents[i])
      return fail(ErrorKind::failed,
                  fmt::format("document {} of {} ({}) does not survive the tokenizer", i, domain.name, name_of(part)),
                  "this is an error of Moiety: please report it with the output of moiety-data list");
    tokens.push_back(tokenizer.end_of_document());
    sequences.add(tokens);
  }
  return sequences;
}

std::size_t characters_of(const std::vector<std::string>& documents) {
  std::size_t sum = 0;
  for (const auto& document : documents) sum += count_characters(document);
  return sum;
}

}  // namespace

Result<std::vector<Entry>> extract_source(const Source& source, const Package& package) {
  const Format& format = *find_format(source.format);
  const auto chosen = [&](std::string_view path) {
    return any_matches(source.files, path) && !any_matches(source.exclude, path);
  };
  const auto main_file = [&](std::string_view path) {
    return format.main_file != nullptr ? format.main_file(path) : std::string(path);
  };
  const auto files = read_package(package.path, [&](std::string_view path) { return chosen(main_file(path)); });
  if (!files) return pass(files);
  std::vector<Entry> entries;
  std::vector<std::string> names;
  for (const auto& [path, bytes] : *files) {
    if (!chosen(path)) continue;
    auto found = format.extract(path, *files);
    if (!found) {
      auto error = found.error();
      error.message = fmt::format("package {}: {}", package.name, error.message);
      return tl::unexpected(error);
    }
    for (std::size_t i = 0; i < found->size(); ++i) {
      if (!admits(source, (*found)[i])) continue;
      entries.push_back(std::move((*found)[i]));
      names.push_back(fmt::format("{}#{}", path, i));
    }
  }
  if (entries.empty())
    return fail(ErrorKind::failed,
                fmt::format("no file of the package {} {} fits {}", package.name, package.version, join(source.files, ", ")),
                "the package has changed: the description of the corpus needs a new version");
  std::vector<Entry> ordered;
  ordered.reserve(entries.size());
  for (const auto i : order_by_hash(names)) ordered.push_back(std::move(entries[i]));
  return ordered;
}

Result<std::vector<DomainText>> build_domains(const CorpusDescription& corpus, const std::vector<std::string>& without,
                                              const std::map<std::string, Package>& packages, Progress& progress) {
  std::vector<DomainText> domains;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < corpus.domains.size(); ++i) {
    const auto& domain = corpus.domains[i];
    if (std::find(without.begin(), without.end(), domain.name) != without.end()) continue;
    progress.step(fmt::format("extracting {} ({} of {})", domain.name, i + 1, corpus.domains.size()));
    auto text = build_domain(domain, corpus.characters(i), corpus.document_bytes, packages, seen, corpus.split);
    if (!text) return pass(text);
    domains.push_back(std::move(*text));
  }
  return domains;
}

std::vector<std::string_view> training_texts(const std::vector<DomainText>& domains) {
  std::vector<std::string_view> texts;
  for (const auto& domain : domains) texts.insert(texts.end(), domain.of(Part::train).begin(), domain.of(Part::train).end());
  return texts;
}

Result<nlohmann::json> write_corpus(const CorpusDescription& corpus, const std::vector<DomainText>& domains,
                                    const Tokenizer& tokenizer, const std::string& folder, Progress& progress) {
  if (auto status = make_folders(folder + "/tokens"); !status) return pass(status);
  if (auto status = write_file(folder + "/tokenizer.model", tokenizer.model()); !status) return pass(status);
  Sha256 hash;
  hash.update("moiety corpus 1\n").update(tokenizer.model());
  nlohmann::json files = {{"tokenizer.model", file_facts(tokenizer.model())}};
  nlohmann::json listed = nlohmann::json::array();
  std::size_t verified = 0;
  for (const auto& domain : domains) {
    progress.step("encoding " + domain.name);
    nlohmann::json entry = {{"name", domain.name}, {"packages", nlohmann::json::array()}};
    for (const auto& package : domain.packages)
      entry["packages"].push_back({{"package", package.name}, {"version", package.version}});
    for (const Part part : kParts) {
      const auto sequences = encode_documents(domain, part, tokenizer);
      if (!sequences) return pass(sequences);
      const std::string tokens = tokens_path(folder, domain.name, part);
      const std::string documents = documents_path(folder, domain.name, part);
      if (auto status = write_sequences(*sequences, tokens, documents); !status) return pass(status);
      const std::string part_name(name_of(part));
      const auto token_bytes = little_endian(sequences->tokens), offset_bytes = little_endian(sequences->offsets);
      hash.update(fmt::format("{} {}\n", domain.name, part_name)).update(token_bytes).update(offset_bytes);
      files[tokens.substr(folder.size() + 1)] = file_facts(token_bytes);
      files[documents.substr(folder.size() + 1)] = file_facts(offset_bytes);
      entry["documents"][part_name] = sequences->size();
      entry["characters"][part_name] = characters_of(domain.of(part));
      entry["tokens"][part_name] = sequences->tokens.size();
      verified += sequences->size();
    }
    const auto& counts = domain.counts;
    entry["cleaning"] = {{"read", counts.read}, {"kept", counts.kept}, {"repeated", counts.repeated}, {"junk", counts.junk}};
    listed.push_back(std::move(entry));
  }
  nlohmann::json about = {{"format", 1},
                          {"name", corpus.name},
                          {"version", corpus.version},
                          {"hash", hash.hex()},
                          {"vocabulary", tokenizer.vocabulary()},
                          {"end_of_document", tokenizer.end_of_document()},
                          {"domains", std::move(listed)},
                          {"tokenizer", {{"kind", "sentencepiece"}, {"file", "tokenizer.model"}}},
                          {"round_trip", {{"documents", verified}, {"failures", 0}}},
                          {"files", std::move(files)}};
  if (auto status = write_file(folder + "/corpus.json", about.dump(1) + "\n"); !status) return pass(status);
  return about;
}

}  // namespace moiety::data
