// The driver's ends of the rings it shares with the device: index arithmetic, work rings (driver produces)
// and completion and event rings (driver consumes). docs/device.md 4.2-4.6.
//
// Indices have 2n values, so that a full ring differs from an empty one. The formulas are the Linux driver's,
// even if n is not a power of two: its event rings count 1536 and 3072 elements and in effect use 512 and
// 1024 (4.3).
//
// The driver trusts the device as little as Linux does: an index outside its range only breaks the ring.
// Release and acquire order elements before the index that publishes them. Thread: one thread at a time per
// ring; the other end is the device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace pvrdma::driver {

// Index arithmetic of a ring of `n` elements.
struct RingIndex {
  static constexpr bool valid(std::uint32_t index, std::uint32_t n) { return (index & ~(2 * n - 1)) == 0; }
  static constexpr std::uint32_t slot(std::uint32_t index, std::uint32_t n) { return index & (n - 1); }
  static constexpr std::uint32_t next(std::uint32_t index, std::uint32_t n) {
    return (index + 1) & (2 * n - 1);
  }
  static constexpr std::uint32_t previous(std::uint32_t index, std::uint32_t n) {
    return (index - 1) & (2 * n - 1);
  }
  // The number of elements between head and tail, if `n` is a power of two.
  static constexpr std::uint32_t used(std::uint32_t head, std::uint32_t tail, std::uint32_t n) {
    return (tail - head) & (2 * n - 1);
  }
};

// The two indices of a ring state page.
class RingState {
 public:
  // `words` points to prod_tail, which cons_head follows: 8 bytes of guest RAM that outlive this object.
  explicit RingState(std::byte* words) : words_(reinterpret_cast<std::uint32_t*>(words)) {}

  std::uint32_t tail(std::memory_order order) const { return std::atomic_ref(words_[0]).load(order); }
  std::uint32_t head(std::memory_order order) const { return std::atomic_ref(words_[1]).load(order); }
  void set_tail(std::uint32_t index) const {
    std::atomic_ref(words_[0]).store(index, std::memory_order_release);
  }
  void set_head(std::uint32_t index) const {
    std::atomic_ref(words_[1]).store(index, std::memory_order_release);
  }
  void clear() const {
    set_tail(0);
    set_head(0);
  }

 private:
  std::uint32_t* words_;  // borrowed
};

enum class RingStatus {
  kReady,
  kBlocked,
  kBroken
};  // kBlocked: full or empty; kBroken: an index out of range

// A ring that the driver fills: SQ, RQ, SRQ. Elements lie back to back, and no element crosses a page
// boundary.
class WorkRing {
 public:
  WorkRing(RingState state, std::byte* elements, std::uint32_t count, std::uint32_t stride_bytes)
      : state_(state), elements_(elements), count_(count), stride_bytes_(stride_bytes) {}

  // Whether an element can be written now. With kReady, `element` points to it.
  RingStatus begin(std::byte*& element) const {
    const std::uint32_t tail = state_.tail(std::memory_order_relaxed);
    const std::uint32_t head = state_.head(std::memory_order_acquire);
    if (!RingIndex::valid(tail, count_) || !RingIndex::valid(head, count_)) return RingStatus::kBroken;
    const std::uint32_t used = RingIndex::used(head, tail, count_);
    if (used > count_) return RingStatus::kBroken;
    if (used == count_) return RingStatus::kBlocked;
    element = elements_ + std::size_t{RingIndex::slot(tail, count_)} * stride_bytes_;
    return RingStatus::kReady;
  }

  // Hands the element of the last begin() to the device.
  void commit() const { state_.set_tail(RingIndex::next(state_.tail(std::memory_order_relaxed), count_)); }

  std::uint32_t count() const { return count_; }
  std::uint32_t stride_bytes() const { return stride_bytes_; }

  // For dropping completions and for drivers that misbehave on purpose.
  const RingState& state() const { return state_; }
  std::byte* element(std::uint32_t slot) const { return elements_ + std::size_t{slot} * stride_bytes_; }

 private:
  RingState state_;
  std::byte* elements_;  // borrowed
  std::uint32_t count_;
  std::uint32_t stride_bytes_;
};

// A ring that the driver empties: CQs (powers of two) and the two event rings.
class ConsumerRing {
 public:
  ConsumerRing(RingState state, const std::byte* elements, std::uint32_t count, std::uint32_t stride_bytes)
      : state_(state), elements_(elements), count_(count), stride_bytes_(stride_bytes) {}

  // With kReady, `element` points to the oldest element, valid until consume().
  RingStatus front(const std::byte*& element) const {
    const std::uint32_t tail = state_.tail(std::memory_order_acquire);
    const std::uint32_t head = state_.head(std::memory_order_relaxed);
    if (!RingIndex::valid(tail, count_) || !RingIndex::valid(head, count_)) return RingStatus::kBroken;
    if (tail == head) return RingStatus::kBlocked;
    element = elements_ + std::size_t{RingIndex::slot(head, count_)} * stride_bytes_;
    return RingStatus::kReady;
  }

  // Lets the device reuse the oldest element.
  void consume() const { state_.set_head(RingIndex::next(state_.head(std::memory_order_relaxed), count_)); }

  std::uint32_t count() const { return count_; }
  const RingState& state() const { return state_; }
  std::byte* element(std::uint32_t slot) const {
    return const_cast<std::byte*>(elements_) + std::size_t{slot} * stride_bytes_;
  }

 private:
  RingState state_;
  const std::byte* elements_;  // borrowed
  std::uint32_t count_;
  std::uint32_t stride_bytes_;
};

}  // namespace pvrdma::driver
