// before_read(): a hook where a test may change guest memory, as a guest may do between any two reads. It is
// called before each read that a decision depends on: copies (copy.h), a ring's indices and elements
// (ring.h).
//
// The hook exists only in programs that compile copy.cc and ring.cc with PVRDMA_READ_HOOK and define
// before_read() themselves. In the daemon and everywhere else it is an empty inline function. Only these two
// files include this header.
#pragma once

#include <cstddef>

#include "guestmem/address_space.h"

namespace pvrdma::guestmem {

#ifdef PVRDMA_READ_HOOK
// The caller reads `bytes` bytes at `at` of `memory` next. Thread: the reader's.
void before_read(const AddressSpace& memory, const std::byte* at, std::size_t bytes);
#else
inline void before_read(const AddressSpace&, const std::byte*, std::size_t) {}
#endif

}  // namespace pvrdma::guestmem
