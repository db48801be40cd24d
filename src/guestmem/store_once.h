// store_once(): copies bytes into guest memory that a guest's CPU may be looking at.
//
// Applications do not always wait for a completion. Some poll the end of a message, or a word of it, and go
// on as soon as it changes. For example, rsockets reads the peer's credit from its memory and counts it down
// in place. memcpy() is not made for that: it stores 16 bytes as twice the same 16 bytes, and the start of a
// long piece last.
//
// What a CPU of the guest sees, on hosts that keep stores in order, as x86 does (ADR 26):
//
// * Each byte is stored once. What the guest has made of a byte that it saw stays.
// * When it sees the last byte of a copy, it sees the whole copy, and all copies before it.
// * A copy of less than 256 bytes is stored from its start to its end, in words of up to 16 bytes. So is the
//   start of a longer copy up to a line of 64 bytes, and its last line, after all others.
// * Between them, a longer copy is stored line by line, lower lines first: when the guest sees a byte, it
//   sees all lines before that byte's. The bytes of one line may appear in any order.
// * Lines of a copy that is longer than the CPU's first-level cache may appear in any order, except the last
//   line. A message of several pieces (guestmem::copy()) is several copies.
//
// Memory may vanish during a copy (sigbus.h): each instruction then goes on where it faulted.
//
// Thread: any.
#pragma once

#include <cstddef>

namespace pvrdma::guestmem {

// Copies `size` bytes. Words of up to 16 bytes that are aligned in `to` are stored by one instruction each in
// copies of less than 256 bytes. Overlapping memory is moved as by memmove(). If the overlap requires another
// order, the guest is promised nothing of the above.
void store_once(std::byte* to, const std::byte* from, std::size_t size);

}  // namespace pvrdma::guestmem
