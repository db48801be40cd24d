// before_read(): where a test may change guest memory, as a guest may between any two reads of it. Called
// before each read that decides something: copies (copy.h), a ring's indices and elements (ring.h).
//
// Only in programs that compile copy.cc and ring.cc themselves with PVRDMA_READ_HOOK and define it; in the
// daemon and everywhere else it is nothing, at no cost. For these two files alone to include.
#pragma once

#include <cstddef>

#include "guestmem/address_space.h"

namespace pvrdma::guestmem {

#ifdef PVRDMA_READ_HOOK
// `bytes` at `at` of `memory` are read next. Thread: the reader's.
void before_read(const AddressSpace& memory, const std::byte* at, std::size_t bytes);
#else
inline void before_read(const AddressSpace&, const std::byte*, std::size_t) {}
#endif

}  // namespace pvrdma::guestmem
