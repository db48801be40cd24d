#include "keep/memory_file.h"

#include <cerrno>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
  std::size_t read = 0;
  while (read < size) {
    const ssize_t got = ::pread(file.get(), bytes.data() + read, size - read, static_cast<off_t>(read));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return fail_errno(got < 0 ? errno : EIO, "reading a file in memory");
    read += static_cast<std::size_t>(got);
  }
  return bytes;
}

}  // namespace pvrdma::keep
