#include "kernel/engine/checkpoint/checkpoint.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "kernel/base/files.h"
#include "kernel/base/hash.h"

namespace moiety::engine {
namespace fs = std::filesystem;
namespace {

constexpr const char* file_names[] = {"model.safetensors", "moments.safetensors", "state.safetensors"};

Status rename_folder(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) return fail(ErrorKind::environment, "cannot rename " + from + ": " + error.message());
  return {};
}

Status remove_folder(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) return fail(ErrorKind::environment, "cannot remove " + path + ": " + error.message());
  return {};
}

Result<Checkpoint> read(const std::string& folder, const std::string& stage) {
  const auto damaged = [](const std::string& why) { return fail(ErrorKind::failed, why); };
  const auto text = read_file(folder + "/checkpoint.json");
  if (!text) return damaged("checkpoint.json cannot be read");
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  Checkpoint checkpoint;
  try {
    if (json.is_discarded() || json.at("format").get<int>() != 1) return damaged("checkpoint.json is not one this program knows");
    if (json.at("stage").get<std::string>() != stage) return damaged("it belongs to another stage");
    checkpoint.step = json.at("step").get<std::int64_t>();
    checkpoint.series_bytes = json.at("series_bytes").get<std::int64_t>();
    if (checkpoint.step < 0 || checkpoint.series_bytes < 0) return damaged("checkpoint.json counts below zero");
    TensorMap* const parts[] = {&checkpoint.model, &checkpoint.moments, &checkpoint.state};
    for (int i = 0; i < 3; ++i) {
      const auto bytes = read_file(folder + "/" + file_names[i]);
      if (!bytes) return damaged(std::string(file_names[i]) + " cannot be read");
      if (sha256(*bytes) != json.at("files").at(file_names[i]).at("sha256").get<std::string>())
        return damaged(std::string(file_names[i]) + " is not what was written");
      auto tensors = parse_safetensors(*bytes, file_names[i]);
      if (!tensors) return pass(tensors);
      *parts[i] = std::move(*tensors);
    }
  } catch (const nlohmann::json::exception&) {
    return damaged("checkpoint.json is damaged");
  }
  return checkpoint;
}

}  // namespace

Status CheckpointFolder::save(std::int64_t step, std::int64_t series_bytes, const NamedTensors& model,
                              const NamedTensors& moments, const NamedTensors& state) const {
  const std::string target = work_ + "/checkpoint", fresh = work_ + "/checkpoint.new", old = work_ + "/checkpoint.old";
  if (auto status = remove_folder(fresh); !status) return status;
  const auto write = [&]() -> Status {
    if (auto status = make_folders(fresh); !status) return status;
    nlohmann::json files;
    const NamedTensors* const parts[] = {&model, &moments, &state};
    for (int i = 0; i < 3; ++i) {
      const std::string bytes = safetensors_bytes(*parts[i]);
      if (auto status = write_file(fresh + "/" + file_names[i], bytes); !status) return status;
      files[file_names[i]] = {{"sha256", sha256(bytes)}, {"bytes", bytes.size()}};
    }
    const nlohmann::json json = {
        {"format", 1}, {"stage", stage_}, {"step", step}, {"series_bytes", series_bytes}, {"files", files}};
    return write_file(fresh + "/checkpoint.json", json.dump(1));
  };
  if (auto status = write(); !status) {
    (void)remove_folder(fresh);
    return status;
  }
  // Between the two renames only the old one is there, under its second name: load() looks there too.
  if (auto status = remove_folder(old); !status) return status;
  if (fs::exists(target))
    if (auto status = rename_folder(target, old); !status) return status;
  if (auto status = rename_folder(fresh, target); !status) return status;
  return remove_folder(old);
}

Result<CheckpointFolder::Loaded> CheckpointFolder::load() const {
  const std::string target = work_ + "/checkpoint", old = work_ + "/checkpoint.old";
  Loaded loaded;
  if (auto status = remove_folder(work_ + "/checkpoint.new"); !status) return pass(status);
  if (!fs::exists(target) && fs::exists(old))
    if (auto status = rename_folder(old, target); !status) return pass(status);
  if (!fs::exists(target)) return loaded;
  auto checkpoint = read(target, stage_);
  if (checkpoint) {
    loaded.checkpoint = std::move(*checkpoint);
    return loaded;
  }
  loaded.damage = checkpoint.error().message;
  if (auto status = set_aside(); !status) return pass(status);
  return loaded;
}

Status CheckpointFolder::set_aside() const {
  const std::string aside = work_ + "/checkpoint.damaged";
  if (auto status = remove_folder(aside); !status) return status;
  return rename_folder(work_ + "/checkpoint", aside);
}

Status CheckpointFolder::remove() const {
  for (const char* name : {"/checkpoint", "/checkpoint.old", "/checkpoint.new"})
    if (auto status = remove_folder(work_ + name); !status) return status;
  return {};
}

}  // namespace moiety::engine
