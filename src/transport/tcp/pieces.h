// Lists of iovecs: measuring them, moving on in them, and copying from and to them. Thread: pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <sys/uio.h>

namespace pvrdma::transport::tcp {

// `pieces` without its first `bytes` bytes; the first piece left is shortened in place.
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

// Whether they hold `bytes` bytes or more.
inline bool reach(std::span<const iovec> pieces, std::size_t bytes) {
  for (const iovec& piece : pieces) {
    if (piece.iov_len >= bytes) return true;
    bytes -= piece.iov_len;
  }
  return bytes == 0;
}

// Fills `into` from the start of `pieces`, less `skip` bytes, as far as both reach; returns how many bytes.
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

// Puts `bytes` at the start of `pieces`, which have room for them.
inline void scatter(std::span<const std::byte> bytes, std::span<const iovec> pieces) {
  for (const iovec& piece : pieces) {
    const std::size_t size = std::min(piece.iov_len, bytes.size());
    if (size == 0) continue;
    std::memcpy(piece.iov_base, bytes.data(), size);
    bytes = bytes.subspan(size);
  }
}

}  // namespace pvrdma::transport::tcp
