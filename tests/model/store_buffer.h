// Memory as threads of an x86 processor see it (x86-TSO). Each thread's stores wait in its store buffer and
// reach memory in order, at any later time. A load finds the thread's own waiting store first. A locked
// operation waits until the buffer is empty.
//
// A store waits while the buffer is full, as on a real processor, whose buffer is longer. Thread: one.
#pragma once

#include <array>
#include <cstdint>

#include "base/check.h"

namespace pvrdma::model {

inline constexpr std::uint8_t kAddresses = 15;
inline constexpr std::size_t kBufferStores = 4;

// Addresses are 1 ... kAddresses, values 0 ... 15.
struct Memory {
  std::array<std::uint8_t, kAddresses + 1> values{};

  bool operator==(const Memory&) const = default;
};

struct StoreBuffer {
  std::array<std::uint8_t, kBufferStores> stores{};  // oldest first, address and value; 0: no store

  bool operator==(const StoreBuffer&) const = default;

  bool empty() const { return stores.front() == 0; }
  bool has_room(std::size_t count = 1) const { return stores[kBufferStores - count] == 0; }

  void store(std::uint8_t address, std::uint8_t value) {
    PVRDMA_CHECK(has_room() && address >= 1 && address <= kAddresses && value <= 15, "no such store");
    std::size_t at = 0;
    while (stores[at] != 0) ++at;
    stores[at] = static_cast<std::uint8_t>(address << 4 | value);
  }
  std::uint8_t load(std::uint8_t address, const Memory& memory) const {
    std::uint8_t value = memory.values[address];
    for (const std::uint8_t store : stores) {
      if (store >> 4 == address) value = store & 15;
    }
    return value;
  }
  bool oldest_is(std::uint8_t address, std::uint8_t value) const {
    return stores[0] == (address << 4 | value);
  }
  // The oldest store reaches memory.
  void drain_one(Memory& memory) {
    memory.values[stores[0] >> 4] = stores[0] & 15;
    for (std::size_t at = 1; at < kBufferStores; ++at) stores[at - 1] = stores[at];
    stores[kBufferStores - 1] = 0;
  }
  void drain(Memory& memory) {
    while (!empty()) drain_one(memory);
  }
};

}  // namespace pvrdma::model
