#include "kernel/base/hash.h"

#include <openssl/evp.h>

#include <chrono>
#include <fstream>
#include <random>
#include <vector>

namespace moiety {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() { EVP_DigestInit_ex(context, EVP_sha256(), nullptr); }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256& Sha256::update(const void* data, std::size_t size) {
  EVP_DigestUpdate(state_->context, data, size);
  return *this;
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(state_->context, digest.data(), &size);
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * size);
  for (unsigned int i = 0; i < size; ++i) {
    text.push_back(digits[digest[i] >> 4]);
    text.push_back(digits[digest[i] & 15]);
  }
  return text;
}

std::string sha256(std::string_view text) { return Sha256().update(text).hex(); }

Result<std::string> sha256_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorKind::environment, "cannot read " + path);
  Sha256 hash;
  std::vector<char> buffer(1 << 20);
  while (file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    hash.update(buffer.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) return fail(ErrorKind::environment, "cannot read " + path + " to its end");
  return hash.hex();
}

std::string new_ulid() {
  constexpr char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  auto time = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  std::string text(26, '0');
  for (int i = 9; i >= 0; --i, time >>= 5) text[static_cast<std::size_t>(i)] = digits[time & 31];
  std::random_device device;
  for (std::size_t i = 10; i < text.size(); ++i) text[i] = digits[device() & 31];
  return text;
}

}  // namespace moiety
