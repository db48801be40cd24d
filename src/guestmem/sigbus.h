// Handles SIGBUS. The kernel raises it in the daemon when a VMM shrinks its memory file and the daemon
// touches the missing part of its mapping.
//
// The handler looks the fault address up in a fixed table of registered ranges (no lock, async-signal-safe).
// It maps anonymous zero pages over the missing page and all pages behind it in its range (where the kernel
// refuses that, over the missing page alone), and sets the owner's flag. The access then goes on with zeros,
// and the owner stops translating addresses. So a range costs the kernel two mappings, however many
// of its pages vanish; pages that are covered alone cost one for each run of neighbours. (Behind the end of a
// shrunk file nothing is mapped, so covering the rest costs no time.) A fault anywhere else gets the default
// action: the daemon dies with a core. System calls on such memory (sendmsg, recvmsg) fail with EFAULT
// instead and raise no signal.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/result.h"

namespace pvrdma::guestmem {

// The ranges of all adapters together.
inline constexpr std::size_t kMaxSigbusRanges = 32768;

// Installs the handler for the process. main() calls it once, before the first map. Thread: control only.
Result<> install_sigbus_handler();

// Enters [base, base + size) into the table. A fault in the range is repaired from the faulting page to the
// end of the range and sets `damaged`, which is borrowed until removal or disown_sigbus_range(). `page_bytes`
// is the page size of the mapping: a power of two that divides `size`. Returns the slot, or -1 when the table
// is full. Thread: any thread.
int add_sigbus_range(std::byte* base, std::size_t size, std::size_t page_bytes, std::atomic<bool>& damaged);

// Faults in the range are still repaired, but set no owner's flag any more. Thread: any thread.
void disown_sigbus_range(int slot);

// Removes the range from the table; call it before the range is unmapped. Thread: any thread.
void remove_sigbus_range(int slot);

}  // namespace pvrdma::guestmem
