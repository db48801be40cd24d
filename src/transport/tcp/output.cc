#include "transport/tcp/output.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace pvrdma::transport::tcp {
namespace {

constexpr std::size_t kFirstCapacity = 16 * 1024;

}  // namespace

std::byte* Output::extend(std::size_t bytes) {
  if (capacity_ - end_ < bytes) {
    const std::size_t waiting = unsent();
    // Moving a few bytes forward is cheaper than growing. Moving many for little room is not.
    if (capacity_ - waiting >= bytes && begin_ >= waiting) {
      std::memmove(buffer_.get(), buffer_.get() + begin_, waiting);
    } else {
      std::size_t wanted = std::max(capacity_, kFirstCapacity);
      while (wanted < waiting + bytes) wanted *= 2;
      if (wanted == capacity_) wanted *= 2;
      auto larger = std::make_unique_for_overwrite<std::byte[]>(wanted);
      if (waiting != 0) std::memcpy(larger.get(), buffer_.get() + begin_, waiting);
      buffer_ = std::move(larger);
      capacity_ = wanted;
    }
    begin_ = 0;
    end_ = waiting;
  }
  std::byte* room = buffer_.get() + end_;
  end_ += bytes;
  return room;
}

void Output::append(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  std::memcpy(extend(bytes.size()), bytes.data(), bytes.size());
}

void Output::append(const guestmem::SpanList& payload, std::size_t skip) {
  PVRDMA_CHECK(skip <= payload.bytes(), "no more of a payload is skipped than there is");
  std::byte* to = extend(static_cast<std::size_t>(payload.bytes()) - skip);
  for (const guestmem::HostSpan& span : payload) {
    const std::size_t skipped = std::min(skip, span.size);
    skip -= skipped;
    const std::size_t size = span.size - skipped;
    if (size == 0) continue;
    std::memcpy(to, span.data + skipped, size);
    to += size;
  }
}

void Output::consume(std::size_t bytes) {
  PVRDMA_CHECK(bytes <= unsent(), "no more is consumed than waits");
  begin_ += bytes;
  if (begin_ == end_) begin_ = end_ = 0;
}

void Output::give_back(std::size_t keep) {
  if (unsent() != 0 || capacity_ <= keep) return;
  buffer_.reset();
  capacity_ = 0;
  begin_ = end_ = 0;
}

}  // namespace pvrdma::transport::tcp
