// store_once(): copies bytes into guest memory that a guest's CPU may be looking at.
//
// Applications do not always wait for a completion. Some poll the end of a message, or a word of it, and go
// on as soon as it changes. For example, rsockets reads the peer's credit from its memory and counts it down
// in place. So each byte is stored once, because the guest may have changed it since. And lower addresses are
// stored first (on hosts that keep stores in order, as x86 does): an application that sees a message's last
// byte sees the whole message. memcpy() promises neither: it stores 16 bytes as twice the same 16 bytes, and
// the start of a long piece last.
//
// Thread: any.
#pragma once

#include <cstddef>

namespace pvrdma::guestmem {

// Copies `size` bytes. Words of up to 16 bytes that are aligned in `to` are stored by one instruction each.
// Overlapping memory is moved as by memmove(). If the overlap requires another order, neither promise holds.
void store_once(std::byte* to, const std::byte* from, std::size_t size);

}  // namespace pvrdma::guestmem
