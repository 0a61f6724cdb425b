// What tests of this folder make their inputs with. All text in the tests is invented for them.
#ifndef MOIETY_KERNEL_DATA_TESTING_FIXTURES_H_
#define MOIETY_KERNEL_DATA_TESTING_FIXTURES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernel/data/formats/format.h"

namespace moiety::data {

std::string little(std::uint32_t value, std::size_t width = 4);
std::string big(std::uint32_t value);

std::string zlib_stream(std::string_view text);
std::string gzip_file(std::string_view text);

/// One tar entry of a regular file, padded; `type` as in the header.
std::string tar_entry(const std::string& name, std::string_view content, char type = '0');
/// The two empty blocks that end an archive.
std::string tar_end();

/// Builds FOLDER/NAME_VERSION_all.deb with the given files and returns its path.
std::string make_deb(const std::string& folder, const std::string& name, const std::string& version,
                     const std::vector<std::pair<std::string, std::string>>& files);

/// Runs the extractor on every prefix of the main file and on copies with single bytes changed: it must return, whatever it
/// returns.
void expect_survives_damage(const Format& format, const std::string& path, const Files& files);

/// Texts of the entries, for comparisons.
std::vector<std::string> texts_of(const Result<std::vector<Entry>>& entries);

}  // namespace moiety::data

#endif  // MOIETY_KERNEL_DATA_TESTING_FIXTURES_H_
