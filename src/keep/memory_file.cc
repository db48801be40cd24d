#include "keep/memory_file.h"

#include <cerrno>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/read_at.h"

namespace pvrdma::keep {
namespace {

constexpr int kUnchangeable = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

}  // namespace

Result<Fd> to_memory_file(std::span<const std::byte> bytes) {
  Fd file(::memfd_create("pvrdma-kept", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return fail_errno(errno, "making a file in memory");
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_errno(errno, "writing a file in memory");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  if (::fcntl(file.get(), F_ADD_SEALS, kUnchangeable) != 0)
    return fail_errno(errno, "sealing a file in memory");
  return file;
}

Result<std::vector<std::byte>> from_memory_file(const Fd& file, std::size_t most) {
  struct stat status {};
  if (::fcntl(file.get(), F_GET_SEALS) != kUnchangeable || ::fstat(file.get(), &status) != 0)
    return fail(EINVAL, "it is not a sealed file in memory");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > most) return fail(E2BIG, fmt::format("it has {} bytes, more than {}", size, most));
  std::vector<std::byte> bytes(size);
  if (auto read = read_at(file.get(), bytes, 0, "a file in memory"); !read)
    return Failure(std::move(read).error());
  return bytes;
}

}  // namespace pvrdma::keep
