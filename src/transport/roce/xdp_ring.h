// XdpRing: one of the four rings that an AF_XDP socket shares with the kernel. Each has a producer and a
// consumer, whose indices only count up. An entry's position is its index modulo the size, which is a power
// of two. The kernel is trusted. Thread: shard-owned.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pvrdma::transport::roce {

template <typename Entry>
class XdpRing {
 public:
  XdpRing() = default;
  // The memory must outlive this.
  XdpRing(std::uint32_t* producer, std::uint32_t* consumer, std::uint32_t* flags, Entry* entries,
          std::uint32_t size)
      : producer_(producer), consumer_(consumer), flags_(flags), entries_(entries), mask_(size - 1) {}

  // For rings that this side consumes: the number of produced entries.
  std::uint32_t waiting() const { return load(*producer_) - own_; }
  const Entry& front() const { return entries_[own_ & mask_]; }
  void pop() { ++own_; }
  void publish_consumed() { store(*consumer_, own_); }

  // For rings that this side produces. The caller of push() has made sure that there is a free entry.
  void push(const Entry& entry) { entries_[own_++ & mask_] = entry; }
  void publish_produced() { store(*producer_, own_); }
  // The number of published entries that the kernel has not consumed.
  std::uint32_t unconsumed() const {
    return std::atomic_ref(*producer_).load(std::memory_order_relaxed) - load(*consumer_);
  }

  // XDP_RING_NEED_WAKEUP and other flags.
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
  std::uint32_t own_ = 0;  // this side's index; publish copies it to the shared one
};

}  // namespace pvrdma::transport::roce
