// Databases of the dictd server: an index of headwords (offset and length in base 64) and one text file, usually dictzip.
#ifndef MOIETY_KERNEL_DATA_FORMATS_DICTD_H_
#define MOIETY_KERNEL_DATA_FORMATS_DICTD_H_

#include <string>
#include <string_view>
#include <vector>

#include "kernel/base/result.h"
#include "kernel/data/packages/archive.h"

namespace moiety::data {

/// Texts of the entries in the order of the file, each once however many headwords lead to it; entries about the database itself
/// ("00-database-info" …) are left out. Index lines that are malformed or point outside the text are passed over.
Result<std::vector<std::string>> read_dictd(const std::string& path, const Files& files);

/// "x.index" → "x.dict.dz"
std::string dictd_main_file(std::string_view path);

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_FORMATS_DICTD_H_
