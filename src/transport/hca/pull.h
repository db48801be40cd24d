// What the two ends of a bulk QP do with memory: one exposes its memory as runs, and the other pulls those
// runs into its own. Thread: shard-owned.
#pragma once

#include <cstdint>

#include "guestmem/host_span.h"
#include "transport/hca/bulk_end.h"
#include "transport/hca/bulk_frame.h"
#include "transport/hca/guest_memory.h"

namespace pvrdma::transport::hca {

enum class Exposed : std::uint8_t {
  kYes,
  kUnregistered,  // some of the payload, which may have been mapped recently
  kTooMany,       // more runs than a frame holds
};
// Finds where a peer may read `payload`, as runs.
Exposed expose(const GuestMemory& memory, const guestmem::SpanList& payload, Runs& runs);

enum class Pulled : std::uint8_t {
  kPosted,
  kNoRoom,  // not enough free READs now; nothing was posted
  kFailed,  // some of `target` is not registered, or it takes too many READs, or the device takes no more;
            // some may have been posted
};
// Posts the READs that copy `runs`, in order, into `target`, which has the same length. Each READ covers a
// stretch that lies in one run and in one registration here. Sets `reads` to the number of READs; all have
// the id `id`.
Pulled pull(BulkEnd& end, const GuestMemory& memory, const Runs& runs, const guestmem::SpanList& target,
            std::uint64_t id, std::uint32_t& reads);

// Makes the processor access what was pulled. Only the processor notices that a page is no longer backed by
// its file (guestmem/sigbus.h); a device keeps writing to the pages that it was given.
void touch(const guestmem::SpanList& target);

}  // namespace pvrdma::transport::hca
