#include "pvrdmactl/checkpoint_file.h"

#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/read_at.h"
#include "pvrdmactl/checkpoint_digest.h"

namespace pvrdma::ctl {
namespace {

// The last bytes of the file: the size of the state, little-endian, the checksum of all bytes up to here, and
// this text.
constexpr std::string_view kMagic = "PVRDMA checkpoint 2\n";
constexpr std::string_view kMagicWithoutChecksum = "PVRDMA checkpoint 1\n";
constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kTrailerBytes = kLengthBytes + sizeof(Digest) + kMagic.size();
constexpr std::uint64_t kStateBytesMax = 1u << 30;  // pvrdmactl writes no larger state

std::string length_text(std::uint64_t state_bytes) {
  std::string bytes;
  for (std::size_t i = 0; i < kLengthBytes; ++i) bytes += static_cast<char>(state_bytes >> (8 * i) & 0xff);
  return bytes;
}

std::string digest_text(const Digest& digest) {
  return {digest.begin(), digest.end()};
}

Failure cannot(const char* what, const std::string& file) {
  return fail_errno(errno, fmt::format("cannot {} {}", what, file));
}

Result<void> write_all(int fd, std::string_view bytes, const std::string& file) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return cannot("write", file);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Result<std::string> read_text(int fd, std::uint64_t offset, std::size_t size, const std::string& file) {
  std::string bytes(size, '\0');
  if (auto read = read_at(fd, std::as_writable_bytes(std::span(bytes)), offset, file); !read)
    return Failure(std::move(read).error());
  return bytes;
}

Failure no_checkpoint(const std::string& file) {
  return fail(EINVAL, fmt::format("{} is not a checkpoint, or is an incomplete one", file));
}

struct Place {
  std::uint64_t begin;
  std::size_t bytes;
  std::string digest;  // of all bytes up to the end of the state's size
};

// Finds the state in the file.
Result<Place> find_state(int fd, const std::string& file) {
  struct stat found {};
  if (::fstat(fd, &found) != 0) return cannot("read", file);
  const auto size = static_cast<std::uint64_t>(found.st_size);
  if (!S_ISREG(found.st_mode) || size < kTrailerBytes) return no_checkpoint(file);
  const auto end = read_text(fd, size - kTrailerBytes, kTrailerBytes, file);
  if (!end) return Failure(end.error());
  if (end->ends_with(kMagicWithoutChecksum)) {
    return fail(EINVAL, fmt::format("{} was written by an earlier version of pvrdmactl, without a checksum: "
                                    "restore it with that version",
                                    file));
  }
  std::uint64_t state_bytes = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;)
    state_bytes = state_bytes << 8 | static_cast<unsigned char>((*end)[i]);
  if (!end->ends_with(kMagic) || state_bytes > kStateBytesMax || state_bytes == 0 ||
      state_bytes > size - kTrailerBytes)
    return no_checkpoint(file);
  return Place{size - kTrailerBytes - state_bytes, static_cast<std::size_t>(state_bytes),
               end->substr(kLengthBytes, sizeof(Digest))};
}

// The checksum of all that the file has now.
Result<Digest> digest_so_far(int fd, const std::string& file) {
  struct stat found {};
  if (::fstat(fd, &found) != 0) return cannot("read", file);
  return digest_of(fd, static_cast<std::uint64_t>(found.st_size), file);
}

}  // namespace

Result<void> append_state(const std::string& file, std::string_view state, Duration patience) {
  const Instant began = Instant::now();
  const Fd fd(::open(file.c_str(), O_RDWR | O_APPEND | O_CLOEXEC));
  if (!fd) return cannot("open", file);
  const std::string before_digest = std::string(state) + length_text(state.size());
  if (auto written = write_all(fd.get(), before_digest, file); !written) return written;
  if (::fsync(fd.get()) != 0) return cannot("write", file);
  const auto digest = digest_so_far(fd.get(), file);
  if (!digest) return Failure(digest.error());
  if (Instant::now() - began >= patience) {
    return fail(ETIMEDOUT,
                fmt::format("to store and read {} took longer than the {} s that the daemon waits: "
                            "write the checkpoint to faster storage",
                            file, std::chrono::duration_cast<std::chrono::seconds>(patience).count()));
  }
  if (auto written = write_all(fd.get(), digest_text(*digest) + std::string(kMagic), file); !written)
    return written;
  if (::fsync(fd.get()) != 0) return cannot("write", file);
  const std::string folder = std::filesystem::path(file).parent_path();
  const Fd place(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!place) return cannot("open", folder);
  return ::fsync(place.get()) == 0 ? Result<void>{} : cannot("write", folder);
}

Result<void> drop_state(const std::string& file) {
  const Fd fd(::open(file.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return cannot("open", file);
  const auto place = find_state(fd.get(), file);
  if (!place) return Failure(place.error());
  return ::ftruncate(fd.get(), static_cast<off_t>(place->begin)) == 0 ? Result<void>{}
                                                                      : cannot("write", file);
}

Result<void> verify(const std::string& file) {
  const Fd fd(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return cannot("open", file);
  const auto place = find_state(fd.get(), file);
  if (!place) return Failure(place.error());
  const auto digest = digest_of(fd.get(), place->begin + place->bytes + kLengthBytes, file);
  if (!digest) return Failure(digest.error());
  if (digest_text(*digest) == place->digest) return {};
  return fail(EBADMSG, fmt::format("{} is damaged: its checksum is not that of what it has: restore from an "
                                   "undamaged copy",
                                   file));
}

Result<std::string> read_state(const std::string& file) {
  const Fd fd(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return cannot("open", file);
  const auto place = find_state(fd.get(), file);
  if (!place) return Failure(place.error());
  return read_text(fd.get(), place->begin, place->bytes, file);
}

}  // namespace pvrdma::ctl
