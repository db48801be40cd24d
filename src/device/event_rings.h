// EventRings: the device's end of the asynchronous event ring (vector 1) and the CQ notification ring (vector
// 2).
//
// The guest's arithmetic makes them a 512-entry and a 1024-entry ring (reference 4.3), and the guest may be
// slow. Entries without room are held back here, and drain() writes them when there is room, the oldest event
// first. The memory for them is bounded: one bit for each CQ's notification (one is enough, however often the
// CQ fired), and kHeldEventsMax events. Further events are counted and lost. Nothing is written before
// attach(). Reference 7.8, 7.9.
//
// Hot path: notify() does not allocate. Thread: shard-owned.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "abi/event_object.h"
#include "abi/ring.h"
#include "base/time.h"
#include "device/counters.h"
#include "device/interrupts.h"
#include "device/shared_region.h"
#include "guestmem/address_space.h"
#include "guestmem/ring.h"
#include "verbs/ids.h"

namespace pvrdma::device {

struct SavedEventRings;

class EventRings {
 public:
  static constexpr std::uint32_t kHeldEventsMax = 1024;
  static constexpr Duration kRetryAfterMin = std::chrono::milliseconds(1);
  static constexpr Duration kRetryAfterMax = std::chrono::milliseconds(64);

  // All are borrowed and outlive this object. CQ handles are below `max_cq`.
  EventRings(const guestmem::AddressSpace& memory, Interrupts& interrupts, Counters& counters,
             std::uint32_t max_cq);

  // Uses the rings of `region`. False: a ring cannot be laid over its pages.
  [[nodiscard]] bool attach(const SharedRegion& region);
  // Forgets the rings and everything held back. Nothing is written any more.
  void detach();

  SavedEventRings save(Instant now) const;
  // As attach() to `region`, whose pages need not be RAM yet, and with the saved entries held back. False:
  // the values are impossible, and nothing is attached.
  [[nodiscard]] bool restore(const SavedEventRings& saved, const SharedRegion& region, Instant now);

  // An armed CQ fired.
  void notify(verbs::CqHandle cq);
  void post(abi::EventType type, std::uint32_t info);

  // The CQ is destroyed: a notification held back for it is dropped. Entries in the guest's ring stay.
  void forget_cq(verbs::CqHandle cq);
  void forget_qp(verbs::QpHandle qp);
  void forget_srq(verbs::SrqHandle srq);

  bool holds_back() const { return pending_cq_count_ != 0 || held_count_ != 0; }

  // Writes held-back entries to the rings as far as there is room. Cheap if there are none. A guest that
  // waits for such an entry may never ring a doorbell, so the shard also calls this at retry_at().
  void drain(Instant now);
  // never() if nothing is held back. Otherwise the pause grows from 1 ms to 64 ms while the guest makes no
  // room.
  Instant retry_at() const { return holds_back() ? retry_at_ : Instant::never(); }

 private:
  bool push_notification(std::uint32_t cq);
  bool push_event(const abi::AsyncEvent& event);
  bool push(guestmem::GuestRing& ring, std::span<const std::byte> element);
  void hold(const abi::AsyncEvent& event);
  std::size_t drain_notifications();
  std::uint32_t next_pending_cq() const;
  std::size_t drain_events();
  void forget_events(abi::EventObject object, std::uint32_t handle);

  const guestmem::AddressSpace& memory_;
  Interrupts& interrupts_;
  Counters& counters_;
  std::optional<guestmem::GuestRing> async_;
  std::optional<guestmem::GuestRing> notifications_;

  std::vector<std::uint64_t> pending_cqs_;  // one bit per CQ
  std::uint32_t pending_cq_count_ = 0;
  std::uint32_t drain_from_cq_ = 0;  // the CQ after the last drained one, so that no CQ waits for ever

  std::array<abi::AsyncEvent, kHeldEventsMax> held_{};  // a circular queue; the oldest is at held_first_
  std::size_t held_first_ = 0;
  std::size_t held_count_ = 0;

  Instant retry_at_{};
  Duration retry_after_;
};

}  // namespace pvrdma::device
