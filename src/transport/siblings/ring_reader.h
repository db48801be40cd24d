// RingReader: the reader's end of a ring.
//
// It says how far it has read after each message that was lent, because then memory becomes free, after each
// 32nd other one, and when the writer waits. Before the shard sleeps it says all, because the writer may
// begin to wait afterwards.
//
// Thread: shard-owned.
#pragma once

#include <cstdint>

#include "base/blame.h"
#include "transport/siblings/bell.h"
#include "transport/siblings/ring.h"
#include "transport/siblings/slot.h"
#include "verbs/payload.h"

namespace pvrdma::transport::siblings {

class RingReader {
 public:
  // Both are borrowed; `writers` is the bell of the writer's shard.
  RingReader(Ring& ring, Bell& writers) : ring_(ring), writers_(writers), position_(ring.head) {}
  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;

  // The next message, valid until pass(); null if there is none. Revoked messages are passed over.
  const Slot* next();
  // The message that next() has returned is handled.
  void pass();

  // Whether the writer has revoked answers since the last call: they are asked for again.
  bool take_restored();

  // Called before the shard lies down.
  void before_sleep() {
    if (unpublished_ != 0) publish();
  }
  // Whether there is something to read. Called after the shard has lain down.
  bool has_something() const;

 private:
  static constexpr std::uint32_t kPublishEvery = 32;

  void publish();

  Ring& ring_;
  Bell& writers_;
  Position position_;
  std::uint32_t unpublished_ = 0;
  std::uint32_t restored_seen_ = 0;
};

// The payload of a message that RingReader::next() has returned.
class SlotPayload final : public verbs::Payload {
 public:
  // All are borrowed. Reading lent memory is a piece of `lender`, or nobody's if that is null.
  SlotPayload(Ring& ring, const Slot& slot, Blame& blame, Blame::Party* lender)
      : ring_(ring), slot_(slot), blame_(blame), lender_(lender) {}

  std::uint64_t bytes() const override { return slot_.payload_bytes(); }
  // False: the writer has revoked the message.
  bool copy_to(const guestmem::SpanList& target) override;
  // The bytes of a message that is not lent, valid until RingReader::pass(). They are only read.
  guestmem::SpanList copied() const;

 private:
  bool copy_lent(const guestmem::SpanList& target);

  Ring& ring_;
  const Slot& slot_;
  Blame& blame_;
  Blame::Party* const lender_;
};

}  // namespace pvrdma::transport::siblings
