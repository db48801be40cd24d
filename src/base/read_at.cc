#include "base/read_at.h"

#include <cerrno>
#include <fmt/core.h>
#include <unistd.h>

namespace pvrdma {

Result<void> read_at(int fd, std::span<std::byte> bytes, std::uint64_t offset, const std::string& file) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "cannot read " + file);
    if (got == 0) return fail(EIO, fmt::format("cannot read {}: it became shorter", file));
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

}  // namespace pvrdma
