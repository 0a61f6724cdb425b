#include "kernel/engine/checkpoint/state_archive.h"

#include <ATen/ATen.h>

#include <stdexcept>

namespace moiety::engine {
namespace {

template <class T>
at::Tensor tensor_of(const T* values, std::size_t count, at::ScalarType type) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(count)}, at::TensorOptions(type));
  std::copy(values, values + count, tensor.data_ptr<T>());
  return tensor;
}

}  // namespace

void StateWriter::operator()(std::string_view name, at::Tensor& value) {
  if (value.defined()) tensors_.emplace_back(name, value.detach().clone());
}
void StateWriter::operator()(std::string_view name, std::int64_t& value) {
  tensors_.emplace_back(name, tensor_of(&value, 1, at::kLong));
}
void StateWriter::operator()(std::string_view name, double& value) {
  tensors_.emplace_back(name, tensor_of(&value, 1, at::kDouble));
}
void StateWriter::operator()(std::string_view name, std::vector<std::int64_t>& value) {
  tensors_.emplace_back(name, tensor_of(value.data(), value.size(), at::kLong));
}
void StateWriter::operator()(std::string_view name, std::vector<double>& value) {
  tensors_.emplace_back(name, tensor_of(value.data(), value.size(), at::kDouble));
}

at::Tensor StateReader::list(std::string_view name, at::ScalarType type) const {
  const auto found = tensors_.find(std::string(name));
  if (found == tensors_.end()) throw std::runtime_error("the state has no " + std::string(name));
  if (found->second.scalar_type() != type || found->second.dim() != 1)
    throw std::runtime_error("the state's " + std::string(name) + " is of another type");
  return found->second;
}

void StateReader::operator()(std::string_view name, at::Tensor& value) {
  const auto found = tensors_.find(std::string(name));
  value = found == tensors_.end() ? at::Tensor() : found->second.clone();
}
void StateReader::operator()(std::string_view name, std::int64_t& value) {
  const at::Tensor tensor = list(name, at::kLong);
  if (tensor.numel() != 1) throw std::runtime_error("the state's " + std::string(name) + " is not one number");
  value = tensor.data_ptr<std::int64_t>()[0];
}
void StateReader::operator()(std::string_view name, double& value) {
  const at::Tensor tensor = list(name, at::kDouble);
  if (tensor.numel() != 1) throw std::runtime_error("the state's " + std::string(name) + " is not one number");
  value = tensor.data_ptr<double>()[0];
}
void StateReader::operator()(std::string_view name, std::vector<std::int64_t>& value) {
  const at::Tensor tensor = list(name, at::kLong);
  value.assign(tensor.data_ptr<std::int64_t>(), tensor.data_ptr<std::int64_t>() + tensor.numel());
}
void StateReader::operator()(std::string_view name, std::vector<double>& value) {
  const at::Tensor tensor = list(name, at::kDouble);
  value.assign(tensor.data_ptr<double>(), tensor.data_ptr<double>() + tensor.numel());
}

}  // namespace moiety::engine
