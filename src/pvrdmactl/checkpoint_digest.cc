#include "pvrdmactl/checkpoint_digest.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <memory>
#include <openssl/evp.h>
#include <span>
#include <unistd.h>
#include <vector>

#include "base/read_at.h"

namespace pvrdma::ctl {
namespace {

constexpr std::uint64_t kBlockBytes = 1u << 20;

// Where data begins, at `from` or behind it. A file system that knows no holes has data everywhere.
std::uint64_t next_data(int fd, std::uint64_t from, std::uint64_t end) {
  const off_t data = ::lseek(fd, static_cast<off_t>(from), SEEK_DATA);
  if (data >= 0) return std::min(end, static_cast<std::uint64_t>(data));
  return errno == ENXIO ? end : from;
}

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) { add(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr)); }

  void update(const void* bytes, std::size_t size) { add(EVP_DigestUpdate(context_.get(), bytes, size)); }
  void update(std::uint64_t number) {
    std::array<unsigned char, 8> bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<unsigned char>(number >> (8 * i) & 0xff);
    update(bytes.data(), bytes.size());
  }
  Result<Digest> finish() {
    Digest digest;
    add(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr));
    if (!is_good_) return fail("OpenSSL computes no SHA-256 here");
    return digest;
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  void add(int outcome) { is_good_ = is_good_ && outcome == 1; }

  const std::unique_ptr<EVP_MD_CTX, Free> context_;
  bool is_good_ = true;
};

}  // namespace

Result<Digest> digest_of(int fd, std::uint64_t bytes, const std::string& file) {
  Sha256 sum;
  std::vector<std::byte> block(kBlockBytes);
  std::uint64_t number = 0;
  while (true) {
    number = std::max(number, next_data(fd, number * kBlockBytes, bytes) / kBlockBytes);
    const std::uint64_t begin = number * kBlockBytes;
    if (begin >= bytes) break;
    const auto part = std::span(block).first(static_cast<std::size_t>(std::min(kBlockBytes, bytes - begin)));
    if (auto read = read_at(fd, part, begin, file); !read) return Failure(std::move(read).error());
    if (std::ranges::any_of(part, [](std::byte byte) { return byte != std::byte{0}; })) {
      sum.update(number);
      sum.update(part.data(), part.size());
    }
    ++number;
  }
  sum.update(bytes);
  return sum.finish();
}

}  // namespace pvrdma::ctl
