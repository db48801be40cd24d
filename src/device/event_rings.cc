#include "device/event_rings.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/check.h"
#include "device/saved.h"

namespace pvrdma::device {
namespace {

constexpr std::uint32_t kBitsPerWord = 64;

constexpr std::uint64_t bit_of(std::uint32_t cq) {
  return std::uint64_t{1} << (cq % kBitsPerWord);
}

template <typename Element>
guestmem::RingShape shape_of(const guestmem::PageList& pages) {
  guestmem::RingShape shape;
  shape.role = guestmem::RingRole::kProducer;
  shape.words = guestmem::RingWords::kRx;
  shape.element_count = abi::effective_ring_entries_of<Element>(pages.size());
  shape.stride_bytes = sizeof(Element);
  return shape;
}

template <typename Element>
std::optional<guestmem::GuestRing> make_ring(const guestmem::AddressSpace& memory,
                                             const guestmem::PageList& pages) {
  return guestmem::GuestRing::create(memory, pages, shape_of<Element>(pages));
}

SavedIndex index_of(const std::optional<guestmem::GuestRing>& ring) {
  if (!ring) return {};
  const guestmem::SavedRing saved = ring->save();
  return {.own_index = saved.own_index, .own_index_known = saved.own_index_known};
}

// A copy of `ring` that goes on at the saved index.
template <typename Element>
std::optional<guestmem::GuestRing> ring_at(const SavedIndex& index, const guestmem::GuestRing& ring,
                                           const guestmem::AddressSpace& memory,
                                           const guestmem::PageList& pages) {
  guestmem::SavedRing saved = ring.save();
  saved.own_index = index.own_index;
  saved.own_index_known = index.own_index_known;
  return guestmem::GuestRing::restore(memory, saved, shape_of<Element>(pages));
}

}  // namespace

EventRings::EventRings(const guestmem::AddressSpace& memory, Interrupts& interrupts, Counters& counters,
                       std::uint32_t max_cq)
    : memory_(memory),
      interrupts_(interrupts),
      counters_(counters),
      pending_cqs_((max_cq + kBitsPerWord - 1) / kBitsPerWord),
      retry_after_(kRetryAfterMin) {}

bool EventRings::attach(const SharedRegion& region) {
  detach();
  async_ = make_ring<abi::AsyncEvent>(memory_, region.async_pages);
  notifications_ = make_ring<abi::Notification>(memory_, region.notification_pages);
  if (async_ && notifications_) return true;
  detach();
  return false;
}

void EventRings::detach() {
  async_.reset();
  notifications_.reset();
  std::fill(pending_cqs_.begin(), pending_cqs_.end(), 0);
  pending_cq_count_ = 0;
  drain_from_cq_ = 0;
  held_first_ = 0;
  held_count_ = 0;
  retry_after_ = kRetryAfterMin;
  retry_at_ = Instant{};
}

SavedEventRings EventRings::save(Instant now) const {
  const auto& [memory, interrupts, counters, async, notifications, pending, pending_count, drain_from,
               held_events, held_first, held_count, retry_at, retry_after] = *this;
  SavedEventRings saved{
      .async = index_of(async),
      .notifications = index_of(notifications),
      .pending_cqs = {},
      .drain_from_cq = drain_from,
      .held = {},
      .retry_in_ns = static_cast<std::uint64_t>(std::max(retry_at - now, Duration(0)).count()),
      .retry_after_ns = static_cast<std::uint64_t>(retry_after.count())};
  for (std::uint32_t index = 0; index < pending.size(); ++index) {
    for (std::uint64_t word = pending[index]; word != 0; word &= word - 1)
      saved.pending_cqs.push_back(index * kBitsPerWord + static_cast<std::uint32_t>(std::countr_zero(word)));
  }
  for (std::size_t i = 0; i < held_count; ++i)
    saved.held.push_back(held_events[(held_first + i) % kHeldEventsMax]);
  return saved;
}

bool EventRings::restore(const SavedEventRings& saved, const SharedRegion& region, Instant now) {
  const auto& [async, notifications, pending, drain_from, held_events, retry_in_ns, retry_after_ns] = saved;
  const std::uint64_t cqs = pending_cqs_.size() * kBitsPerWord;
  const Duration retry_after{static_cast<Duration::rep>(retry_after_ns)};
  const bool is_ascending = std::ranges::adjacent_find(pending, std::greater_equal{}) == pending.end();
  if (!is_ascending || (!pending.empty() && pending.back() >= cqs) || drain_from > cqs) return false;
  if (retry_after < kRetryAfterMin || retry_after > kRetryAfterMax) return false;
  if (held_events.size() > kHeldEventsMax || !attach(region)) return false;
  async_ = ring_at<abi::AsyncEvent>(async, *async_, memory_, region.async_pages);
  notifications_ =
      ring_at<abi::Notification>(notifications, *notifications_, memory_, region.notification_pages);
  if (!async_ || !notifications_) {
    detach();
    return false;
  }
  for (const std::uint32_t cq : pending) pending_cqs_[cq / kBitsPerWord] |= bit_of(cq);
  pending_cq_count_ = static_cast<std::uint32_t>(pending.size());
  drain_from_cq_ = drain_from;
  std::ranges::copy(held_events, held_.begin());
  held_count_ = held_events.size();
  retry_at_ = now + Duration(static_cast<Duration::rep>(retry_in_ns));
  retry_after_ = retry_after;
  return true;
}

void EventRings::notify(verbs::CqHandle cq) {
  if (!notifications_) return;
  const std::uint32_t handle = cq.value;
  PVRDMA_CHECK(handle / kBitsPerWord < pending_cqs_.size(), "a CQ handle beyond max_cq");
  if (pending_cq_count_ == 0 && push_notification(handle)) {
    interrupts_.raise(abi::Vector::kNotification);
    return;
  }
  std::uint64_t& word = pending_cqs_[handle / kBitsPerWord];
  if ((word & bit_of(handle)) != 0) return;
  word |= bit_of(handle);
  ++pending_cq_count_;
  ++counters_.events_held_back;
}

void EventRings::post(abi::EventType type, std::uint32_t info) {
  if (!async_) return;
  const abi::AsyncEvent event{static_cast<std::uint32_t>(type), info};
  if (held_count_ == 0 && push_event(event)) {
    interrupts_.raise(abi::Vector::kAsyncEvent);
    return;
  }
  hold(event);
}

void EventRings::forget_cq(verbs::CqHandle cq) {
  if (cq.value / kBitsPerWord < pending_cqs_.size()) {
    std::uint64_t& word = pending_cqs_[cq.value / kBitsPerWord];
    if ((word & bit_of(cq.value)) != 0) {
      word &= ~bit_of(cq.value);
      --pending_cq_count_;
    }
  }
  forget_events(abi::EventObject::kCq, cq.value);
}

void EventRings::forget_qp(verbs::QpHandle qp) {
  forget_events(abi::EventObject::kQp, qp.value);
}

void EventRings::forget_srq(verbs::SrqHandle srq) {
  forget_events(abi::EventObject::kSrq, srq.value);
}

void EventRings::drain(Instant now) {
  if (!holds_back()) return;
  const std::size_t notified = drain_notifications();
  const std::size_t posted = drain_events();
  if (notified != 0) interrupts_.raise(abi::Vector::kNotification);
  if (posted != 0) interrupts_.raise(abi::Vector::kAsyncEvent);
  if (notified + posted != 0) {
    retry_after_ = kRetryAfterMin;
    retry_at_ = now + retry_after_;
  } else if (now >= retry_at_) {
    retry_at_ = now + retry_after_;
    retry_after_ = std::min(retry_after_ * 2, kRetryAfterMax);
  }
}

std::size_t EventRings::drain_notifications() {
  std::size_t moved = 0;
  while (pending_cq_count_ != 0) {
    const std::uint32_t cq = next_pending_cq();
    if (!push_notification(cq)) break;
    pending_cqs_[cq / kBitsPerWord] &= ~bit_of(cq);
    --pending_cq_count_;
    ++moved;
    drain_from_cq_ = cq + 1;
  }
  return moved;
}

// The first CQ held back at or after drain_from_cq_, cyclically. There is one: the caller has checked.
std::uint32_t EventRings::next_pending_cq() const {
  const std::size_t words = pending_cqs_.size();
  const std::size_t first = drain_from_cq_ / kBitsPerWord;
  for (std::size_t scanned = 0; scanned <= words; ++scanned) {
    const std::size_t index = (first + scanned) % words;
    std::uint64_t word = pending_cqs_[index];
    if (scanned == 0 && first < words) word &= ~std::uint64_t{0} << (drain_from_cq_ % kBitsPerWord);
    if (word != 0)
      return static_cast<std::uint32_t>(index) * kBitsPerWord +
             static_cast<std::uint32_t>(std::countr_zero(word));
  }
  PVRDMA_CHECK(false, "the number of waiting CQs is wrong");
}

std::size_t EventRings::drain_events() {
  std::size_t moved = 0;
  while (held_count_ != 0 && push_event(held_[held_first_])) {
    held_first_ = (held_first_ + 1) % kHeldEventsMax;
    --held_count_;
    ++moved;
  }
  return moved;
}

bool EventRings::push_notification(std::uint32_t cq) {
  const abi::Notification notification{cq};
  if (!push(*notifications_, std::as_bytes(std::span(&notification, 1)))) return false;
  ++counters_.notifications;
  return true;
}

bool EventRings::push_event(const abi::AsyncEvent& event) {
  if (!push(*async_, std::as_bytes(std::span(&event, 1)))) return false;
  ++counters_.async_events;
  return true;
}

// Whatever prevents the write, the guest can correct it. So the entry is held back, as if there were no room.
bool EventRings::push(guestmem::GuestRing& ring, std::span<const std::byte> element) {
  switch (ring.push(element)) {
    case guestmem::RingStatus::kOk:
      return true;
    case guestmem::RingStatus::kFull:
      return false;
    case guestmem::RingStatus::kEmpty:
    case guestmem::RingStatus::kInvalidIndex:
    case guestmem::RingStatus::kUnmapped:
      break;
  }
  ++counters_.invalid_event_indices;
  return false;
}

void EventRings::hold(const abi::AsyncEvent& event) {
  if (held_count_ == kHeldEventsMax) {
    ++counters_.events_dropped;
    return;
  }
  held_[(held_first_ + held_count_) % kHeldEventsMax] = event;
  ++held_count_;
  ++counters_.events_held_back;
}

void EventRings::forget_events(abi::EventObject object, std::uint32_t handle) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < held_count_; ++i) {
    const abi::AsyncEvent event = held_[(held_first_ + i) % kHeldEventsMax];
    if (event.info == handle && abi::object_of(static_cast<abi::EventType>(event.type)) == object) continue;
    held_[(held_first_ + kept++) % kHeldEventsMax] = event;
  }
  held_count_ = kept;
}

}  // namespace pvrdma::device
