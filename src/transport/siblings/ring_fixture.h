// Two ends of a ring, and the memory of a sender's and of a receiver's guest, for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "guestmem/host_span.h"
#include "transport/siblings/bell.h"
#include "transport/siblings/ring.h"
#include "transport/siblings/ring_reader.h"
#include "transport/siblings/ring_writer.h"

namespace pvrdma::transport::siblings::test {

inline constexpr SegmentId kSegment{.dvs = 7, .vlan = 11};

inline std::byte content(std::uint32_t number, std::size_t at) {
  return static_cast<std::byte>(number * 31 + at * 7 + 1);
}

// A write of `bytes` bytes.
inline verbs::Request request(std::uint32_t number, std::uint32_t bytes) {
  verbs::Request made;
  made.number = verbs::MessageNumber(number);
  made.op = verbs::RequestOp::kWrite;
  made.message_bytes = made.bytes = bytes;
  return made;
}

inline verbs::Response response(std::uint32_t number, std::uint32_t bytes = 0) {
  verbs::Response made;
  made.number = verbs::MessageNumber(number);
  made.bytes = bytes;
  return made;
}

// Guest memory in `pieces` pieces, which do not touch.
class Memory {
 public:
  explicit Memory(std::uint32_t bytes, std::uint32_t pieces = 1) : bytes_(bytes), memory_(bytes + pieces) {
    const std::uint32_t each = bytes / pieces;
    std::uint32_t left = bytes;
    for (std::byte* at = memory_.data(); left != 0;) {
      const std::uint32_t part = spans_.size() + 1 == pieces ? left : each;
      if (!spans_.append(at, part)) break;
      at += part + 1;
      left -= part;
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void fill(std::uint32_t number) {
    std::size_t i = 0;
    for (const guestmem::HostSpan& span : spans_) {
      for (std::size_t at = 0; at < span.size; ++at) span.data[at] = content(number, i++);
    }
  }
  bool has(std::uint32_t number) const {
    std::size_t i = 0;
    for (const guestmem::HostSpan& span : spans_) {
      for (std::size_t at = 0; at < span.size; ++at) {
        if (span.data[at] != content(number, i++)) return false;
      }
    }
    return true;
  }
  // Quicker than fill().
  void fill_with(std::byte value) {
    for (const guestmem::HostSpan& span : spans_)
      std::memset(span.data, std::to_integer<int>(value), span.size);
  }
  const guestmem::SpanList& spans() const { return spans_; }

 private:
  const std::uint32_t bytes_;
  std::vector<std::byte> memory_;
  guestmem::SpanList spans_;
};

// Everything that a direction needs.
struct Direction {
  explicit Direction(Bell& writers, Position first = 0)
      : ring(std::make_unique<Ring>(first)), writer(*ring), reader(*ring, writers) {}

  const std::unique_ptr<Ring> ring;
  RingWriter writer;
  RingReader reader;
};

}  // namespace pvrdma::transport::siblings::test
