#include "transport/hca/pull.h"

#include <algorithm>

namespace pvrdma::transport::hca {
namespace {

// Calls `read` for each READ that is needed. False: `read` returned false, or part of `target` is not
// registered.
template <typename Read>
bool each_read(const GuestMemory& memory, const Runs& runs, const guestmem::SpanList& target, Read read) {
  auto run = runs.view().begin();
  std::uint32_t run_done = 0;
  for (const guestmem::HostSpan& span : target) {
    for (std::size_t done = 0; done != span.size;) {
      const GuestMemory::Key key = memory.find(span.data + done);
      const std::size_t bytes = std::min({span.size - done, key.bytes, std::size_t{run->bytes - run_done}});
      if (bytes == 0) return false;
      const RegisteredSpan into{span.data + done, static_cast<std::uint32_t>(bytes), key.lkey};
      if (!read(into, run->address + run_done, run->rkey)) return false;
      done += bytes;
      run_done += into.bytes;
      if (run_done == run->bytes) {
        ++run;
        run_done = 0;
      }
    }
  }
  return true;
}

}  // namespace

Exposed expose(const GuestMemory& memory, const guestmem::SpanList& payload, Runs& runs) {
  runs.clear();
  for (const guestmem::HostSpan& span : payload) {
    std::byte* data = span.data;
    for (std::size_t left = span.size; left != 0;) {
      const GuestMemory::Key key = memory.find(data);
      const std::size_t bytes = std::min(left, key.bytes);
      if (bytes == 0) return Exposed::kUnregistered;
      if (!runs.append({.address = reinterpret_cast<std::uintptr_t>(data),
                        .bytes = static_cast<std::uint32_t>(bytes),
                        .rkey = key.rkey}))
        return Exposed::kTooMany;
      data += bytes;
      left -= bytes;
    }
  }
  return Exposed::kYes;
}

Pulled pull(BulkEnd& end, const GuestMemory& memory, const Runs& runs, const guestmem::SpanList& target,
            std::uint64_t id, std::uint32_t& reads) {
  reads = 0;
  const auto tally = [&](const RegisteredSpan&, std::uint64_t, std::uint32_t) {
    ++reads;
    return true;
  };
  if (!each_read(memory, runs, target, tally) || reads > kPostedReadsMax / 2) return Pulled::kFailed;
  if (reads > end.free_reads()) return Pulled::kNoRoom;
  const auto post = [&](const RegisteredSpan& into, std::uint64_t address, std::uint32_t rkey) {
    return end.post_read(id, into, address, rkey);
  };
  return each_read(memory, runs, target, post) ? Pulled::kPosted : Pulled::kFailed;
}

// If the file ends within a span, the span's last byte is beyond its end, so reading that byte is enough.
void touch(const guestmem::SpanList& target) {
  for (const guestmem::HostSpan& span : target)
    static_cast<void>(*static_cast<const volatile std::byte*>(span.data + span.size - 1));
}

}  // namespace pvrdma::transport::hca
