// XdpRing: one of the four rings that an AF_XDP socket and the kernel share. Each has a producer and
// a consumer, whose indices only count up; an entry's place is its index modulo the size, a power of two.
// The kernel is trusted. Thread: shard-owned.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pvrdma::transport::roce {

template <typename Entry>
class XdpRing {
 public:
  XdpRing() = default;
  // In memory that outlives this.
  XdpRing(std::uint32_t* producer, std::uint32_t* consumer, std::uint32_t* flags, Entry* entries,
          std::uint32_t size)
      : producer_(producer), consumer_(consumer), flags_(flags), entries_(entries), mask_(size - 1) {}

  // Where we consume: entries that were produced.
  std::uint32_t waiting() const { return load(*producer_) - own_; }
  const Entry& front() const { return entries_[own_ & mask_]; }
  void pop() { ++own_; }
  void publish_consumed() { store(*consumer_, own_); }

  // Where we produce: who calls push() knows that there is a place.
  void push(const Entry& entry) { entries_[own_++ & mask_] = entry; }
  void publish_produced() { store(*producer_, own_); }
  // What the kernel has not consumed of what was published.
  std::uint32_t unconsumed() const {
    return std::atomic_ref(*producer_).load(std::memory_order_relaxed) - load(*consumer_);
  }

  // XDP_RING_NEED_WAKEUP and the like.
  std::uint32_t flags() const { return load(*flags_); }

 private:
  static std::uint32_t load(std::uint32_t& index) {
    return std::atomic_ref(index).load(std::memory_order_acquire);
  }
  static void store(std::uint32_t& index, std::uint32_t value) {
    std::atomic_ref(index).store(value, std::memory_order_release);
  }

  std::uint32_t* producer_ = nullptr;
  std::uint32_t* consumer_ = nullptr;
  std::uint32_t* flags_ = nullptr;
  Entry* entries_ = nullptr;
  std::uint32_t mask_ = 0;
  std::uint32_t own_ = 0;  // our index; the shared one follows at publish
};

}  // namespace pvrdma::transport::roce
