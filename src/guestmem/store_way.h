// StoreWay: the instructions by which store_once() stores whole lines of memory. The widest that the CPU has
// are chosen once, before main().
//
// Thread: any, except set_store_way().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pvrdma::guestmem {

// Bytes of a line, the unit in which CPUs of one host see each other's stores.
inline constexpr std::size_t kLineBytes = 64;

// Both functions copy `bytes` bytes, each of which is stored once. `to` is aligned to a line, `bytes` is a
// multiple of a line, and `to` is not inside of the bytes to be read.
struct StoreWay {
  using Store = void (*)(std::byte* to, const std::byte* from, std::size_t bytes);

  const char* name;
  // Stores lower lines first. The bytes of one line may appear in any order.
  Store lines;
  // Stores lines in any order, but none before an earlier store and none after a later one. For copies of
  // more than `long_above` bytes, a multiple of a line.
  Store long_copy;
  std::size_t long_above;
};

// The ways that this CPU has, the fastest one last.
std::span<const StoreWay> store_ways();

// The way that copies use. It is the last of store_ways(), except in tests and benches that set another.
const StoreWay& store_way();
// For tests and benches. Thread: no other may copy meanwhile.
void set_store_way(const StoreWay& way);

}  // namespace pvrdma::guestmem
