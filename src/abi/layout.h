// Compile-time proof of the layout of every structure shared with the guest.
//
// PVRDMA_ABI_STRUCT(T, size) proves that T is a plain object of `size` bytes without hidden padding, so that
// a byte copy from guest memory is the only parsing needed. PVRDMA_ABI_FIELD(T, field, offset, size) proves
// one field's offset and size. The numbers come from the tables marked [abi] of docs/device.md. A program
// that includes the kernel's own headers printed those tables.
#pragma once

#include <bit>
#include <cstddef>
#include <type_traits>

namespace pvrdma::abi {

static_assert(std::endian::native == std::endian::little,
              "the guest's structures are little-endian and used in place");

// The unit of page directories, rings and doorbell pages (section 4.1). Guests with other page sizes are not
// supported.
inline constexpr std::size_t kPageBytes = 4096;

}  // namespace pvrdma::abi

#define PVRDMA_ABI_STRUCT(type, bytes)                                                  \
  static_assert(sizeof(type) == (bytes));                                               \
  static_assert(std::is_trivially_copyable_v<type> && std::is_standard_layout_v<type>); \
  static_assert(std::has_unique_object_representations_v<type>, "padding must be spelled out")

#define PVRDMA_ABI_FIELD(type, field, offset, bytes) \
  static_assert(offsetof(type, field) == (offset));  \
  static_assert(sizeof(type::field) == (bytes))
