// Output: the bytes of one connection that its socket has not taken yet, in order: gathered small frames, and
// the rest of a large one.
//
// The buffer grows by doubling and is kept, so that no message allocates in steady state. give_back() frees a
// large empty buffer. The user (FrameSocket) limits how much may wait here.
//
// Thread: shard-owned.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "guestmem/host_span.h"

namespace pvrdma::transport::tcp {

class Output {
 public:
  std::size_t unsent() const { return end_ - begin_; }
  std::size_t capacity() const { return capacity_; }
  std::span<std::byte> pending() { return {buffer_.get() + begin_, unsent()}; }

  void append(std::span<const std::byte> bytes);
  // Appends `payload` without its first `skip` bytes.
  void append(const guestmem::SpanList& payload, std::size_t skip);

  // Removes the first `bytes` of pending(), which were sent.
  void consume(std::size_t bytes);
  // Frees the buffer if it is empty and larger than `keep` bytes.
  void give_back(std::size_t keep);

 private:
  // Room for `bytes` at the end, counted as appended.
  std::byte* extend(std::size_t bytes);

  std::unique_ptr<std::byte[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace pvrdma::transport::tcp
