// Lists of iovecs: measure them, advance in them, and copy from and to them. Thread: pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <sys/uio.h>

namespace pvrdma::transport::tcp {

// `pieces` without its first `bytes` bytes. The first remaining piece is shortened in place.
inline std::span<iovec> drop_front(std::span<iovec> pieces, std::size_t bytes) {
  while (!pieces.empty() && bytes >= pieces.front().iov_len) {
    bytes -= pieces.front().iov_len;
    pieces = pieces.subspan(1);
  }
  if (bytes != 0 && !pieces.empty()) {
    pieces.front().iov_base = static_cast<std::byte*>(pieces.front().iov_base) + bytes;
    pieces.front().iov_len -= bytes;
  }
  return pieces;
}

// Whether the pieces hold at least `bytes` bytes.
inline bool reach(std::span<const iovec> pieces, std::size_t bytes) {
  for (const iovec& piece : pieces) {
    if (piece.iov_len >= bytes) return true;
    bytes -= piece.iov_len;
  }
  return bytes == 0;
}

// Fills `into` from `pieces` without their first `skip` bytes, until one of them ends. Returns the number of
// bytes.
inline std::size_t gather(std::span<const iovec> pieces, std::span<std::byte> into, std::size_t skip = 0) {
  std::size_t done = 0;
  for (const iovec& piece : pieces) {
    if (done == into.size()) break;
    if (skip >= piece.iov_len) {
      skip -= piece.iov_len;
      continue;
    }
    const std::size_t size = std::min(piece.iov_len - skip, into.size() - done);
    std::memcpy(into.data() + done, static_cast<const std::byte*>(piece.iov_base) + skip, size);
    done += size;
    skip = 0;
  }
  return done;
}

// Copies `bytes` to the start of `pieces`, which have room for them.
inline void scatter(std::span<const std::byte> bytes, std::span<const iovec> pieces) {
  for (const iovec& piece : pieces) {
    const std::size_t size = std::min(piece.iov_len, bytes.size());
    if (size == 0) continue;
    std::memcpy(piece.iov_base, bytes.data(), size);
    bytes = bytes.subspan(size);
  }
}

}  // namespace pvrdma::transport::tcp
