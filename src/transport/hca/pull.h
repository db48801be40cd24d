// What the two ends of a bulk QP do with memory: one exposes it, as runs, and the other pulls what is there
// into its own. Thread: shard-owned.
#pragma once

#include <cstdint>

#include "guestmem/host_span.h"
#include "transport/hca/bulk_end.h"
#include "transport/hca/bulk_frame.h"
#include "transport/hca/guest_memory.h"

namespace pvrdma::transport::hca {

enum class Exposed : std::uint8_t {
  kYes,
  kUnregistered,  // some of it: mapped since, perhaps
  kTooMany,       // runs
};
// Where a peer may read `payload`.
Exposed expose(const GuestMemory& memory, const guestmem::SpanList& payload, Runs& runs);

enum class Pulled : std::uint8_t {
  kPosted,
  kNoRoom,  // for its READs, now: nothing was posted
  kFailed,  // some of `target` is not registered, or it takes too many READs, or the device takes no more;
            // some may have been posted
};
// Posts the READs for what is in `runs`, in order, into `target`, which is as long: one for each stretch that
// lies in one run and in one registration here. `reads`: how many, all with that id.
Pulled pull(BulkEnd& end, const GuestMemory& memory, const Runs& runs, const guestmem::SpanList& target,
            std::uint64_t id, std::uint32_t& reads);

// Has the processor look at what was pulled: whether pages are still those of their file is something that
// only it notices (guestmem/sigbus.h), and a device goes on writing into those it was given.
void touch(const guestmem::SpanList& target);

}  // namespace pvrdma::transport::hca
