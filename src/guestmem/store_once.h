// How bytes get into guest memory that a guest's CPU may be looking at.
//
// Applications do not always wait for a completion. Some look at the end of a message, or at a word of it,
// and go on as soon as it changes: rsockets take a credit from the peer out of their memory and count it down
// there. So each byte is stored once: what the guest has made of it since is the guest's. And lower addresses
// are stored first (on hosts that keep stores in order, as x86 does): who sees a message's last byte sees all
// of it. memcpy() promises neither: it stores 16 bytes as two times the same 16, and the start of a long
// piece last.
//
// Thread: any.
#pragma once

#include <cstddef>

namespace pvrdma::guestmem {

// Copies `size` bytes. Words of up to 16 bytes that are aligned in `to` are stored by one instruction each.
// Memory that overlaps is moved as by memmove(); where that takes another order, as of the order nothing is
// promised.
void store_once(std::byte* to, const std::byte* from, std::size_t size);

}  // namespace pvrdma::guestmem
