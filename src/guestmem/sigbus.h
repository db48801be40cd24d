// What happens when a VMM shrinks its memory file under our mapping: the access raises SIGBUS in the daemon.
//
// The handler looks the fault address up in a fixed table of registered ranges (no lock, async-signal-safe),
// puts anonymous zero pages over the missing one and all behind it in its range, and raises the owner's flag;
// the access then goes on with zeros, and the owner translates no address any more. So a range is never more
// than two mappings of the kernel's, however many of its pages vanish. (Behind the end of a shrunk file
// nothing is mapped, so covering the rest costs no time.) A fault anywhere else gets the default action: the
// daemon dies with a core. System calls on such memory (sendmsg, recvmsg) fail with EFAULT instead and raise
// no signal.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/result.h"

namespace pvrdma::guestmem {

// Ranges of all adapters together.
inline constexpr std::size_t kMaxSigbusRanges = 16384;

// Installs the handler for the process. Called once, by main(), before the first map. Thread: control only.
Result<> install_sigbus_handler();

// Enters [base, base + size) into the table; faults in it are repaired from the page on that they were in
// (`page_bytes`, the page size of the mapping: a power of two that divides `size`) and set `damaged`, which
// is borrowed until removal or disown_sigbus_range(). Returns the slot, or -1 when the table is full. Thread:
// any thread.
int add_sigbus_range(std::byte* base, std::size_t size, std::size_t page_bytes, std::atomic<bool>& damaged);

// Faults in the range are repaired as before, but are nobody's damage any more. Thread: any thread.
void disown_sigbus_range(int slot);

// Before the range is unmapped. Thread: any thread.
void remove_sigbus_range(int slot);

}  // namespace pvrdma::guestmem
