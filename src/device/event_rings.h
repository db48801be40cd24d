// EventRings: the device's end of the asynchronous event ring (vector 1) and the CQ notification ring (vector
// 2).
//
// The guest's arithmetic makes them a 512-entry and a 1024-entry ring (reference 4.3), and the guest may be
// slow: what finds no room is held back here and goes out, oldest event first, when drain() finds room. What
// waits is bounded: notifications by one bit per CQ (one is enough, however often the CQ fired), events by
// kHeldEventsMax; events beyond that are counted and lost. Nothing is written before attach().
// Reference 7.8, 7.9.
//
// Hot path: notify() does not allocate. Thread: shard-owned.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

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

  // All borrowed, outlive this. CQ handles are below `max_cq`.
  EventRings(const guestmem::AddressSpace& memory, Interrupts& interrupts, Counters& counters,
             std::uint32_t max_cq);

  // Takes the rings of `region`. False if no ring can be laid over its pages.
  [[nodiscard]] bool attach(const SharedRegion& region);
  // Forgets the rings and all that waits; nothing is written any more.
  void detach();

  SavedEventRings save(Instant now) const;
  // As attach() to `region`, whose pages need not be RAM yet, and with all that waited. False: the values are
  // impossible; nothing is attached.
  [[nodiscard]] bool restore(const SavedEventRings& saved, const SharedRegion& region, Instant now);

  // An armed CQ fired.
  void notify(verbs::CqHandle cq);
  void post(abi::EventType type, std::uint32_t info);

  // The object is gone: what still waits for it is forgotten (what is in the guest's ring stays).
  void forget_cq(verbs::CqHandle cq);
  void forget_qp(verbs::QpHandle qp);
  void forget_srq(verbs::SrqHandle srq);

  bool holds_back() const { return pending_cq_count_ != 0 || held_count_ != 0; }

  // Puts what waits into the rings as far as there is room. Cheap when nothing waits. No doorbell need ever
  // come from a guest that waits for one of these, so the shard also calls this at retry_at().
  void drain(Instant now);
  // never() when nothing waits; otherwise backs off from 1 ms to 64 ms while the guest makes no room.
  Instant retry_at() const { return holds_back() ? retry_at_ : Instant::never(); }

 private:
  enum class Target : std::uint8_t { kCq, kQp, kSrq, kOther };
  static Target target_of(std::uint32_t type);

  bool push_notification(std::uint32_t cq);
  bool push_event(const abi::AsyncEvent& event);
  bool push(guestmem::GuestRing& ring, std::span<const std::byte> element);
  void hold(const abi::AsyncEvent& event);
  std::size_t drain_notifications();
  std::uint32_t next_pending_cq() const;
  std::size_t drain_events();
  void forget_events(Target target, std::uint32_t handle);

  const guestmem::AddressSpace& memory_;
  Interrupts& interrupts_;
  Counters& counters_;
  std::optional<guestmem::GuestRing> async_;
  std::optional<guestmem::GuestRing> notifications_;

  std::vector<std::uint64_t> pending_cqs_;  // one bit per CQ
  std::uint32_t pending_cq_count_ = 0;
  std::uint32_t drain_from_cq_ = 0;  // the one after the last drained, so that no CQ waits for ever

  std::array<abi::AsyncEvent, kHeldEventsMax> held_{};  // a queue: held_first_ is the oldest
  std::size_t held_first_ = 0;
  std::size_t held_count_ = 0;

  Instant retry_at_{};
  Duration retry_after_;
};

}  // namespace pvrdma::device
