// HostSpan and SpanList: pieces of guest memory in the daemon's own address space. copy() copies from one
// list to another.
//
// A guest may change the bytes of a piece at any time. They stay mapped only until the AddressSpace that they
// came from changes. Use a list within one turn of the loop; never keep it. Thread: values, shard-owned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace pvrdma::guestmem {

struct HostSpan {
  std::byte* data;
  std::size_t size;  // bytes
};

// At most kCapacity pieces in order, in place. A piece that begins where the last one ends extends the last
// one. Never allocates; building a list costs nothing.
class SpanList {
 public:
  static constexpr std::size_t kCapacity = 160;

  SpanList() {}  // not defaulted, to leave the array uninitialised: it has 2.5 KiB, on a hot path

  // A copy touches only the pieces in use.
  SpanList(const SpanList& other) { assign(other); }
  SpanList& operator=(const SpanList& other) {
    if (this != &other) assign(other);
    return *this;
  }

  // Returns false and changes nothing when another piece is needed and the list is full. An empty piece is
  // accepted and ignored.
  [[nodiscard]] bool append(std::byte* data, std::size_t size) {
    if (size == 0) return true;
    if (count_ != 0 && spans_[count_ - 1].data + spans_[count_ - 1].size == data) {
      spans_[count_ - 1].size += size;
    } else {
      if (count_ == kCapacity) return false;
      spans_[count_++] = HostSpan{data, size};
    }
    bytes_ += size;
    return true;
  }
  void clear() { count_ = bytes_ = 0; }

  // Number of pieces.
  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  // Sum of the pieces' sizes.
  std::uint64_t bytes() const { return bytes_; }

  const HostSpan& operator[](std::size_t i) const {
    PVRDMA_CHECK(i < count_, "index beyond the span list's size");
    return spans_[i];
  }
  const HostSpan* begin() const { return spans_.data(); }
  const HostSpan* end() const { return spans_.data() + count_; }

  // A position to rewind to when the pieces after it are not needed.
  struct Mark {
    std::size_t count;
    std::size_t last_size;
    std::uint64_t bytes;
  };
  Mark mark() const { return Mark{count_, count_ == 0 ? 0 : spans_[count_ - 1].size, bytes_}; }
  // Drops everything appended since `mark` was taken.
  void rewind(const Mark& mark) {
    PVRDMA_CHECK(mark.count <= count_, "a span list rewinds backwards only");
    count_ = mark.count;
    if (count_ != 0) spans_[count_ - 1].size = mark.last_size;
    bytes_ = mark.bytes;
  }

 private:
  void assign(const SpanList& other) {
    for (std::size_t i = 0; i < other.count_; ++i) spans_[i] = other.spans_[i];
    count_ = other.count_;
    bytes_ = other.bytes_;
  }

  std::array<HostSpan, kCapacity> spans_;
  std::size_t count_ = 0;
  std::uint64_t bytes_ = 0;
};

// Copies the first `bytes` bytes of `src` to the start of `dst`, or fewer when either list is shorter.
// Returns the number of bytes copied. Does one move for each stretch that is contiguous on both sides. The
// lists may name the same memory (a guest that writes to itself): each stretch is then moved as by memmove,
// one stretch after the other. To copy private memory (a header, a result), make it a piece of a list.
std::uint64_t copy(const SpanList& dst, const SpanList& src, std::uint64_t bytes);

// Reads a byte of each page of the list. Then the kernel has provided the pages, however long that takes.
void touch_for_reading(const SpanList& spans);
// The same for writing: it replaces the byte by itself atomically, so no store of the guest is lost.
void touch_for_writing(const SpanList& spans);

// Copies a list into private memory, from its start to its end, one part at a time.
class SpanReader {
 public:
  // `spans` is borrowed.
  explicit SpanReader(const SpanList& spans) : spans_(spans) {}

  // Reads the next `bytes` bytes, which must not be more than are left.
  void read(std::byte* out, std::size_t bytes);

 private:
  const SpanList& spans_;
  std::size_t piece_ = 0;
  std::size_t offset_ = 0;  // within the piece
};

}  // namespace pvrdma::guestmem
