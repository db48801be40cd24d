// RingWriter: the writer's end of a ring.
//
// It remembers what it has sent until the reader has read it. Then slots, spans and copies are free again,
// and lent answers are returned. What one adapter has in the ring is bounded (Share), so that no guest fills
// it for the others.
//
// Thread: shard-owned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "guestmem/host_span.h"
#include "transport/siblings/ring.h"
#include "transport/siblings/slot.h"
#include "transport/transport.h"
#include "verbs/ids.h"
#include "verbs/message.h"

namespace pvrdma::transport::siblings {

class RingWriter {
 public:
  static constexpr std::uint32_t kBesideBytesMax = 512;        // a path lends what is longer, if it can
  static constexpr std::uint32_t kLentBytesMax = 1024 * 1024;  // room ends here; one piece may exceed it
  static constexpr std::uint32_t kLentAnswersMax = 16;         // verbs::QpLoans::kAnswersMax

  // What one adapter has in the ring. It must not end before forget().
  struct Share {
    std::uint32_t slots = 0;
    std::uint32_t lent_bytes = 0;
  };

  // What the writer remembers of a message in the ring.
  struct Sent {
    Share* share = nullptr;      // null: the adapter has ended
    const void* path = nullptr;  // whose message it is
    std::uint32_t rkey = 0;      // of a lent answer
    verbs::Qpn qpn;              // of the sender
    std::uint32_t spans_end = 0;
    std::uint32_t lines_end = 0;
    std::uint32_t lent_bytes = 0;
    MessageKind kind{};
    Where where{};
    bool is_revoked = false;
  };
  static_assert(sizeof(Sent) == 40);

  struct Sender {
    Share& share;
    const void* path;
    verbs::Qpn qpn;
    std::uint32_t rkey = 0;
  };

  // A lent answer whose memory the reader no longer reads.
  struct Returned {
    Share* share = nullptr;
    verbs::Qpn qpn;
    std::uint32_t rkey = 0;
  };

  struct Counters {
    std::uint64_t revoked = 0;
    std::uint64_t revoke_waits = 0;  // revokes that met the reader in the middle of a copy
  };

  // `ring` is borrowed.
  explicit RingWriter(Ring& ring) : ring_(ring), tail_(ring.head), reclaimed_(ring.head) {}
  RingWriter(const RingWriter&) = delete;
  RingWriter& operator=(const RingWriter&) = delete;

  // Whether the next request or datagram of that adapter has room. If so, the next send() or lend() cannot
  // fail for want of it. If not, has_room_again() becomes true when it is worth asking again.
  bool has_room(const Share& share);
  // Like has_room(), for a datagram, which is dropped if there is no room: it does not wait, and hold() does
  // not concern it.
  bool has_room_for_datagram(const Share& share);
  // Like has_room(), for all answers to one request. Answers are not counted against a share.
  bool has_room_for_answers();
  // Whether has_room() or has_room_for_answers() returned false and may not do so now. Asked in each turn,
  // and by a shard that has announced its sleep: so no fence is needed before.
  bool has_room_again();
  // Whether one of these two returned false, and has_room_again() has not returned true since.
  bool waits() const { return waits_ || waits_for_answers_; }

  // Sends a message with a copy of its payload, at most kCopyBytesMax. Returns false if there is no room.
  template <typename Message>
  bool send(const Message& message, SegmentId segment, const Sender& sender,
            const guestmem::SpanList& payload);
  // Lends the payload: the reader reads it until the slot is read, or until revoke() has returned.
  template <typename Message>
  bool lend(const Message& message, SegmentId segment, const Sender& sender,
            const guestmem::SpanList& payload);

  // Whether something was sent since the last call. The caller fences and rings the reader's bell.
  bool take_unflushed() { return std::exchange(unflushed_, false); }

  // Whether a request or answer that lends memory may not be read yet.
  bool lends() const { return lent_bytes_ != 0; }

  // Takes back all messages that `is_one` picks (Sent, Slot) and that are not executed, and calls
  // `on_revoked` (Sent, Slot) for each. A message that was not lent may have been executed all the same.
  // Waits at most for the copy of one piece, if the reader is in the middle of it.
  //
  // The newest goes first. So if the reader finds one of these messages revoked, it finds all newer ones
  // revoked, too: it executes a prefix of each connection's messages.
  template <typename IsOne, typename OnRevoked>
  void revoke(IsOne is_one, OnRevoked on_revoked) {
    const Position head = ring_.head.load(std::memory_order_acquire);
    for (Position at = tail_; at != head;) {
      at = before(at);
      Sent& sent = sent_[at % kSlots];
      const Slot& slot = ring_.slots[at % kSlots];
      if (sent.is_revoked || !is_one(std::as_const(sent), slot)) continue;
      if (withdraw(at)) on_revoked(std::as_const(sent), slot);
    }
  }
  // The adapter ends: nothing refers to its share any more. Its messages were revoked before.
  void forget(const Share& share);

  // Requests were revoked. Their connections have no room until they know that, because a new message would
  // arrive before the repetition of an older one.
  void hold() { is_held_ = true; }
  void release() {
    is_held_ = false;
    has_news_ = true;
  }
  // Answers were revoked: the reader has its requests repeated.
  void tell_restored() {
    ring_.restored.fetch_add(1, std::memory_order_release);
    unflushed_ = true;
  }

  // A lent answer that was returned, on an empty stack. Returns false if there is none.
  bool take_returned(Returned& returned);

  const Counters& counters() const { return counters_; }

 private:
  bool has_free(std::uint32_t slots) const;
  bool room(const Share& share) const;
  bool has_free_for(const Share& share) const;
  bool room_for_answers() const;
  // Says that the writer waits unless it `has` room.
  template <typename Has>
  bool ask_room(Has has);
  void end_wait();
  void reclaim();
  Slot& begin(SegmentId segment);
  void copy(Slot& slot, const guestmem::SpanList& payload);
  void offer(Slot& slot, const Sender& sender, std::uint32_t lent_bytes);
  bool withdraw(Position at);
  void give_back_lent(Sent& sent);

  Ring& ring_;
  Position tail_;                 // of the next message
  Position reclaimed_;            // all before it is reclaimed; never after the ring's head
  std::uint32_t spans_tail_ = 0;  // these four count for ever
  std::uint32_t spans_free_to_ = 0;
  std::uint32_t lines_tail_ = 0;
  std::uint32_t lines_free_to_ = 0;
  std::uint32_t lent_bytes_ = 0;    // and neither read nor revoked
  std::uint32_t lent_answers_ = 0;  // and not returned
  std::uint32_t returned_count_ = 0;
  bool waits_ = false;
  bool waits_for_answers_ = false;
  bool has_news_ = false;  // there may be more room than when that was last told
  bool is_held_ = false;
  bool unflushed_ = false;
  Counters counters_;
  std::array<Returned, kLentAnswersMax> returned_;
  std::array<Sent, kSlots> sent_;
};

}  // namespace pvrdma::transport::siblings
