#include "transport/siblings/ring_reader.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pvrdma::transport::siblings {

const Slot* RingReader::next() {
  while (true) {
    const Slot& slot = ring_.slots[position_ % kSlots];
    const std::uint32_t word = slot.state.load(std::memory_order_acquire);
    if (position_of(word) != position_) break;
    if (state_of(word) != SlotState::kRevoked) return &slot;
    pass();
  }
  if (unpublished_ != 0 && ring_.writer_waits.load(std::memory_order_relaxed) != 0) publish();
  return nullptr;
}

void RingReader::pass() {
  const bool was_lent = ring_.slots[position_ % kSlots].where == Where::kLent;
  position_ = after(position_);
  ++unpublished_;
  if (was_lent || unpublished_ == kPublishEvery) publish();
}

// The writer says that it waits, fences and looks at the head. So one of the two sees the other.
void RingReader::publish() {
  unpublished_ = 0;
  ring_.head.store(position_, std::memory_order_release);
  full_fence();
  if (ring_.writer_waits.load(std::memory_order_relaxed) != 0) writers_.ring();
}

bool RingReader::take_restored() {
  const std::uint32_t restored = ring_.restored.load(std::memory_order_acquire);
  return std::exchange(restored_seen_, restored) != restored;
}

bool RingReader::has_something() const {
  const Slot& slot = ring_.slots[position_ % kSlots];
  return position_of(slot.state.load(std::memory_order_acquire)) == position_ ||
         ring_.restored.load(std::memory_order_acquire) != restored_seen_;
}

bool SlotPayload::copy_to(const guestmem::SpanList& target) {
  if (slot_.where == Where::kLent) return copy_lent(target);
  guestmem::copy(target, copied(), target.bytes());
  return true;
}

guestmem::SpanList SlotPayload::copied() const {
  guestmem::SpanList source;
  if (slot_.where == Where::kInSlot) {
    // Only read.
    PVRDMA_CHECK(source.append(const_cast<std::byte*>(slot_.payload.data()), slot_.payload_bytes()),
                 "one span has room");
    return source;
  }
  for (std::uint32_t at = 0; at < slot_.payload_bytes(); at += kCacheLine) {
    const std::uint32_t line = (slot_.first + at / kCacheLine) % kLines;
    PVRDMA_CHECK(source.append(ring_.lines[line].data(),
                               std::min<std::size_t>(kCacheLine, slot_.payload_bytes() - at)),
                 "at most one wrap, so two spans");
  }
  return source;
}

// Taken for as long as the copy lasts, and no longer.
bool SlotPayload::copy_lent(const guestmem::SpanList& target) {
  std::atomic<std::uint32_t>& state =
      ring_.slots[static_cast<std::size_t>(&slot_ - ring_.slots.data())].state;
  const Position at = position_of(state.load(std::memory_order_relaxed));
  std::uint32_t word = to_word(at, SlotState::kOffered);
  if (!state.compare_exchange_strong(word, to_word(at, SlotState::kTaken), std::memory_order_acquire,
                                     std::memory_order_acquire))
    return false;
  guestmem::SpanList source;
  for (std::uint32_t i = 0; i < slot_.span_count; ++i) {
    const guestmem::HostSpan& span = ring_.spans[(slot_.first + i) % kSpans];
    PVRDMA_CHECK(source.append(span.data, span.size), "as many spans as the sender's list had");
  }
  if (blame_.is_watching()) [[unlikely]] {
    const Blame::Piece lenders(blame_, lender_);
    guestmem::touch_for_reading(source);
  }
  guestmem::copy(target, source, target.bytes());
  state.store(to_word(at, SlotState::kDone), std::memory_order_release);
  return true;
}

}  // namespace pvrdma::transport::siblings
