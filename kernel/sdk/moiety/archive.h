// State of a component, in both directions: the same function reads and writes.
#ifndef MOIETY_ARCHIVE_H_
#define MOIETY_ARCHIVE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace moiety {

class Archive {
 public:
  virtual ~Archive() = default;
  virtual bool reading() const = 0;
  virtual void operator()(std::string_view name, at::Tensor& value) = 0;
  virtual void operator()(std::string_view name, std::int64_t& value) = 0;
  virtual void operator()(std::string_view name, double& value) = 0;
  virtual void operator()(std::string_view name, std::vector<std::int64_t>& value) = 0;
  virtual void operator()(std::string_view name, std::vector<double>& value) = 0;
};

}  // namespace moiety

#endif  // MOIETY_ARCHIVE_H_
