#include "transport/siblings/ring_writer.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "transport/siblings/fences.h"

namespace pvrdma::transport::siblings {
namespace {

constexpr std::uint32_t kSpansMax = guestmem::SpanList::kCapacity;  // of one message
constexpr std::uint32_t kCopyLinesMax = kCopyBytesMax / kCacheLine;
constexpr std::uint32_t kAnswerSlots = 3;  // the most that one request causes
constexpr int kSpins = 2000;               // until the processor is given to another thread

void put(Slot& slot, const verbs::Request& request) {
  slot.kind = MessageKind::kRequest;
  slot.message.request = request;
}
void put(Slot& slot, const verbs::Response& response) {
  slot.kind = MessageKind::kResponse;
  slot.message.response = response;
}
void put(Slot& slot, const verbs::Datagram& datagram) {
  slot.kind = MessageKind::kDatagram;
  slot.message.datagram = datagram;
}

}  // namespace

bool RingWriter::has_free(std::uint32_t slots) const {
  return kSlots - count(reclaimed_, tail_) >= slots && kSpans - (spans_tail_ - spans_free_to_) >= kSpansMax &&
         kLines - (lines_tail_ - lines_free_to_) >= kCopyLinesMax;
}

// One slot stays free for an answer that nobody has asked room for.
bool RingWriter::has_free_for(const Share& share) const {
  return has_free(2) && lent_bytes_ < kLentBytesMax && share.slots < kSlots / 2 &&
         share.lent_bytes < kLentBytesMax / 2;
}

bool RingWriter::room(const Share& share) const {
  return !is_held_ && has_free_for(share);
}

bool RingWriter::has_room_for_datagram(const Share& share) {
  if (!has_free_for(share)) reclaim();
  return has_free_for(share);
}

bool RingWriter::room_for_answers() const {
  return has_free(kAnswerSlots) && lent_answers_ < kLentAnswersMax;
}

template <typename Has>
bool RingWriter::ask_room(Has has) {
  if (has()) return true;
  reclaim();
  if (has()) return true;
  ring_.writer_waits.store(1, std::memory_order_relaxed);
  return false;
}

bool RingWriter::has_room(const Share& share) {
  const bool has = ask_room([&] { return room(share); });
  waits_ = waits_ || !has;
  return has;
}

bool RingWriter::has_room_for_answers() {
  const bool has = ask_room([this] { return room_for_answers(); });
  if (has && waits_for_answers_) end_wait();
  waits_for_answers_ = !has;
  return has;
}

// Which adapter waits is not known, so any room is news.
bool RingWriter::has_room_again() {
  if (!waits()) return false;
  reclaim();
  // Answers that were returned count as lent until take_returned().
  const bool has =
      waits_for_answers_ ? returned_count_ != 0 || room_for_answers() : has_news_ && room(Share{});
  if (has) end_wait();
  return has;
}

void RingWriter::end_wait() {
  waits_ = waits_for_answers_ = has_news_ = false;
  ring_.writer_waits.store(0, std::memory_order_relaxed);
}

void RingWriter::reclaim() {
  const Position head = ring_.head.load(std::memory_order_acquire);
  has_news_ = has_news_ || reclaimed_ != head;
  for (; reclaimed_ != head; reclaimed_ = after(reclaimed_)) {
    Sent& sent = sent_[reclaimed_ % kSlots];
    spans_free_to_ = sent.spans_end;
    lines_free_to_ = sent.lines_end;
    if (sent.share != nullptr && sent.kind != MessageKind::kResponse) --sent.share->slots;
    if (sent.where != Where::kLent || sent.is_revoked) continue;
    give_back_lent(sent);
    if (sent.kind == MessageKind::kResponse) returned_[returned_count_++] = {sent.share, sent.qpn, sent.rkey};
  }
}

void RingWriter::give_back_lent(Sent& sent) {
  lent_bytes_ -= sent.lent_bytes;
  if (sent.share != nullptr && sent.kind != MessageKind::kResponse) sent.share->lent_bytes -= sent.lent_bytes;
  sent.lent_bytes = 0;
  has_news_ = true;
}

bool RingWriter::take_returned(Returned& returned) {
  if (returned_count_ == 0) {
    if (lent_answers_ == 0) return false;
    reclaim();
    if (returned_count_ == 0) return false;
  }
  returned = returned_[--returned_count_];
  --lent_answers_;
  return true;
}

template <typename Message>
bool RingWriter::send(const Message& message, SegmentId segment, const Sender& sender,
                      const guestmem::SpanList& payload) {
  PVRDMA_CHECK(payload.bytes() <= kCopyBytesMax, "the path grants no more");
  if (!has_free(1)) reclaim();
  if (!has_free(1)) return false;
  Slot& slot = begin(segment);
  put(slot, message);
  copy(slot, payload);
  offer(slot, sender, 0);
  return true;
}

template <typename Message>
bool RingWriter::lend(const Message& message, SegmentId segment, const Sender& sender,
                      const guestmem::SpanList& payload) {
  if (!has_free(1)) reclaim();
  if (!has_free(1)) return false;
  Slot& slot = begin(segment);
  put(slot, message);
  if (slot.kind == MessageKind::kResponse) {
    if (lent_answers_ == kLentAnswersMax) return false;
    ++lent_answers_;
  }
  slot.where = Where::kLent;
  slot.first = static_cast<std::uint16_t>(spans_tail_ % kSpans);
  slot.span_count = static_cast<std::uint8_t>(payload.size());
  for (const guestmem::HostSpan& each : payload) ring_.spans[spans_tail_++ % kSpans] = each;
  offer(slot, sender, static_cast<std::uint32_t>(payload.bytes()));
  return true;
}

template bool RingWriter::send(const verbs::Request&, SegmentId, const Sender&, const guestmem::SpanList&);
template bool RingWriter::send(const verbs::Response&, SegmentId, const Sender&, const guestmem::SpanList&);
template bool RingWriter::send(const verbs::Datagram&, SegmentId, const Sender&, const guestmem::SpanList&);
template bool RingWriter::lend(const verbs::Request&, SegmentId, const Sender&, const guestmem::SpanList&);
template bool RingWriter::lend(const verbs::Response&, SegmentId, const Sender&, const guestmem::SpanList&);

Slot& RingWriter::begin(SegmentId segment) {
  Slot& slot = ring_.slots[tail_ % kSlots];
  slot.dvs = segment.dvs;
  slot.vlan = segment.vlan;
  return slot;
}

// The payload's bytes may change while they are read: they are a guest's.
void RingWriter::copy(Slot& slot, const guestmem::SpanList& payload) {
  const auto bytes = static_cast<std::uint32_t>(payload.bytes());
  guestmem::SpanReader reader(payload);
  if (bytes <= kInSlotBytesMax) {
    slot.where = Where::kInSlot;
    reader.read(slot.payload.data(), bytes);
    return;
  }
  slot.where = Where::kBeside;
  slot.first = static_cast<std::uint16_t>(lines_tail_ % kLines);
  for (std::uint32_t left = bytes; left != 0;) {
    const std::uint32_t part = std::min<std::uint32_t>(left, kCacheLine);
    reader.read(ring_.lines[lines_tail_++ % kLines].data(), part);
    left -= part;
  }
}

void RingWriter::offer(Slot& slot, const Sender& sender, std::uint32_t lent_bytes) {
  sent_[tail_ % kSlots] = {.share = &sender.share,
                           .path = sender.path,
                           .rkey = sender.rkey,
                           .qpn = sender.qpn,
                           .spans_end = spans_tail_,
                           .lines_end = lines_tail_,
                           .lent_bytes = lent_bytes,
                           .kind = slot.kind,
                           .where = slot.where};
  if (slot.kind != MessageKind::kResponse) {
    ++sender.share.slots;
    sender.share.lent_bytes += lent_bytes;
  }
  lent_bytes_ += lent_bytes;
  slot.state.store(to_word(tail_, SlotState::kOffered), std::memory_order_release);
  tail_ = after(tail_);
  unflushed_ = true;
}

// Returns false if the reader has copied the payload. If the reader is in the middle of that, this waits for
// its thread, which copies and waits for nobody; the kernel may have taken it off its core.
bool RingWriter::withdraw(Position at) {
  Sent& sent = sent_[at % kSlots];
  std::atomic<std::uint32_t>& state = ring_.slots[at % kSlots].state;
  if (sent.where == Where::kLent) {
    std::uint32_t word = to_word(at, SlotState::kOffered);
    if (!state.compare_exchange_strong(word, to_word(at, SlotState::kRevoked), std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
      if (state_of(word) == SlotState::kTaken) ++counters_.revoke_waits;
      for (int spin = 0; state_of(word) == SlotState::kTaken; ++spin) {
        if (spin < kSpins)
          relax();
        else
          std::this_thread::yield();
        word = state.load(std::memory_order_acquire);
      }
      return false;
    }
    give_back_lent(sent);
    if (sent.kind == MessageKind::kResponse) --lent_answers_;
  } else {
    state.store(to_word(at, SlotState::kRevoked), std::memory_order_release);
  }
  sent.is_revoked = true;
  ++counters_.revoked;
  return true;
}

void RingWriter::forget(const Share& share) {
  reclaim();
  for (Position at = reclaimed_; at != tail_; at = after(at)) {
    Sent& sent = sent_[at % kSlots];
    if (sent.share != &share) continue;
    sent.share = nullptr;
    sent.path = nullptr;
  }
  for (std::uint32_t i = 0; i < returned_count_; ++i) {
    if (returned_[i].share == &share) returned_[i].share = nullptr;
  }
}

}  // namespace pvrdma::transport::siblings
