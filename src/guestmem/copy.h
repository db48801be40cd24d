// Copy-once access to guest memory. A value that a decision depends on is read once into a private copy, and
// the copy is checked.
//
// Thread: as the AddressSpace, shard-owned; the functions for 32-bit words: any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "base/check.h"
#include "guestmem/address_space.h"

namespace pvrdma::guestmem {

// Fills `out` from guest memory at `from`, each byte read once. False, with `out` partly filled, when a byte
// of the range is not readable RAM.
[[nodiscard]] bool read(const AddressSpace& memory, GuestPhys from, std::span<std::byte> out);

// A private copy of the T at `from`, or nothing when a byte of it is not readable RAM.
template <typename T>
[[nodiscard]] std::optional<T> read_object(const AddressSpace& memory, GuestPhys from) {
  static_assert(std::is_trivially_copyable_v<T>);
  T object;
  if (!read(memory, from, std::as_writable_bytes(std::span(&object, 1)))) return std::nullopt;
  return object;
}

// Writes `bytes` at `to`. Returns false when a byte of the range is not writable RAM; the bytes before it may
// have been written.
[[nodiscard]] bool write(const AddressSpace& memory, GuestPhys to, std::span<const std::byte> bytes);

template <typename T>
[[nodiscard]] bool write_object(const AddressSpace& memory, GuestPhys to, const T& object) {
  static_assert(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>,
                "padding would show the guest our stack");
  return write(memory, to, std::as_bytes(std::span(&object, 1)));
}

// Atomic access to a 32-bit word that the guest also accesses atomically. `word` is 4-byte aligned and was
// translated with the right that the operation needs.
inline std::atomic_ref<std::uint32_t> guest_word(std::byte* word) {
  PVRDMA_CHECK(reinterpret_cast<std::uintptr_t>(word) % alignof(std::uint32_t) == 0,
               "guest words are aligned");
  return std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(word));
}
inline std::uint32_t load_relaxed_u32(std::byte* word) {
  return guest_word(word).load(std::memory_order_relaxed);
}
inline std::uint32_t load_acquire_u32(std::byte* word) {
  return guest_word(word).load(std::memory_order_acquire);
}
inline void store_release_u32(std::byte* word, std::uint32_t value) {
  guest_word(word).store(value, std::memory_order_release);
}

}  // namespace pvrdma::guestmem
