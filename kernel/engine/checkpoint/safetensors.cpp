#include "kernel/engine/checkpoint/safetensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <tuple>

#include "kernel/base/files.h"

namespace moiety::engine {
namespace {

constexpr std::uint64_t header_limit = 100'000'000;

struct TypeName {
  at::ScalarType type;
  const char* name;
};
constexpr TypeName type_names[] = {{at::kFloat, "F32"}, {at::kDouble, "F64"}, {at::kLong, "I64"}};

const char* name_of(at::ScalarType type) {
  for (const auto& known : type_names)
    if (known.type == type) return known.name;
  throw std::invalid_argument(std::string("no tensor of type ") + c10::toString(type) + " can be stored");
}

struct Found {
  std::string name;
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;
};

/// JSON whose objects name nothing twice, or nothing.
std::optional<nlohmann::json> parse_unique(std::string_view text) {
  std::vector<std::set<std::string>> names;
  bool unique = true;
  const auto watch = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    if (event == nlohmann::json::parse_event_t::object_start) names.emplace_back();
    if (event == nlohmann::json::parse_event_t::object_end) names.pop_back();
    if (event == nlohmann::json::parse_event_t::key) unique = names.back().insert(value.get<std::string>()).second && unique;
    return true;
  };
  auto json = nlohmann::json::parse(text.begin(), text.end(), watch, false);
  if (json.is_discarded() || !json.is_object() || !unique) return std::nullopt;
  return json;
}

/// What one entry of the header says, or why it cannot be.
std::string read_entry(const nlohmann::json& entry, Found& found) {
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets"))
    return "must have dtype, shape and data_offsets, nothing else";
  const auto& type = entry["dtype"];
  const auto& shape = entry["shape"];
  const auto& offsets = entry["data_offsets"];
  const auto known =
      std::find_if(std::begin(type_names), std::end(type_names), [&](const TypeName& t) { return type == t.name; });
  if (known == std::end(type_names)) return "has a type this program does not know";
  found.type = known->type;
  std::uint64_t size = c10::elementSize(found.type);
  if (!shape.is_array() || shape.size() > 16) return "has no shape";
  for (const auto& side : shape) {
    if (!side.is_number_unsigned()) return "has a shape that is no list of sizes";
    const auto n = side.get<std::uint64_t>();
    if (n > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ||
        (n != 0 && size > std::numeric_limits<std::int64_t>::max() / n))
      return "has a size that overflows";
    size *= n;
    found.shape.push_back(static_cast<std::int64_t>(n));
  }
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
    return "has no offsets";
  found.begin = offsets[0].get<std::uint64_t>();
  found.end = offsets[1].get<std::uint64_t>();
  if (found.end < found.begin || found.end - found.begin != size) return "has offsets that do not fit its shape";
  return {};
}

}  // namespace

std::string safetensors_bytes(const NamedTensors& tensors) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    if (header.contains(name) || name == "__metadata__")
      throw std::invalid_argument("tensor " + name + " cannot be stored under this name");
    const std::uint64_t bytes = static_cast<std::uint64_t>(tensor.numel()) * tensor.element_size();
    header[name] = {
        {"dtype", name_of(tensor.scalar_type())}, {"shape", tensor.sizes().vec()}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::string bytes(8 + length + offset, '\0');
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, text.data(), length);
  char* data = bytes.data() + 8 + length;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor plain = tensor.detach().contiguous();
    const std::size_t size = static_cast<std::size_t>(plain.numel()) * plain.element_size();
    if (size > 0) std::memcpy(data, plain.data_ptr(), size);
    data += size;
  }
  return bytes;
}

Result<TensorMap> parse_safetensors(std::string_view bytes, const std::string& what) {
  const auto damaged = [&what](const std::string& why) { return fail(ErrorKind::failed, what + " is damaged: " + why); };
  std::uint64_t length = 0;
  if (bytes.size() < 8) return damaged("it is shorter than a header");
  std::memcpy(&length, bytes.data(), 8);
  if (length > header_limit) return damaged("its header is longer than 100 MB");
  if (length > bytes.size() - 8) return damaged("its header is longer than the file");
  const auto header = parse_unique(bytes.substr(8, length));
  if (!header) return damaged("its header is not JSON, or names something twice");
  const std::string_view data = bytes.substr(8 + length);

  std::vector<Found> found;
  for (const auto& [name, entry] : header->items()) {
    if (name == "__metadata__") continue;
    Found one;
    one.name = name;
    if (const std::string why = read_entry(entry, one); !why.empty()) return damaged("tensor " + name.substr(0, 100) + " " + why);
    found.push_back(std::move(one));
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name); });
  std::uint64_t end = 0;
  for (const auto& one : found) {
    if (one.begin != end) return damaged("tensor " + one.name.substr(0, 100) + " does not begin where the one before it ends");
    if (one.end > data.size()) return damaged("tensor " + one.name.substr(0, 100) + " reaches past the end");
    end = one.end;
  }
  if (end != data.size()) return damaged("some of its bytes belong to no tensor");

  TensorMap tensors;
  for (const auto& one : found) {
    at::Tensor tensor = at::empty(one.shape, at::TensorOptions(one.type));
    if (one.end > one.begin) std::memcpy(tensor.data_ptr(), data.data() + one.begin, one.end - one.begin);
    tensors.emplace(one.name, tensor);
  }
  return tensors;
}

Status write_safetensors(const std::string& path, const NamedTensors& tensors) {
  return write_file(path, safetensors_bytes(tensors));
}

Result<TensorMap> read_safetensors(const std::string& path) {
  const auto bytes = read_file(path);
  if (!bytes) return pass(bytes);
  return parse_safetensors(*bytes, path);
}

}  // namespace moiety::engine
