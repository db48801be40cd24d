#include "moves/logged_pages.h"

#include <algorithm>
#include <cstdint>

namespace pvrdma::moves {

Result<std::optional<guestmem::PageRun>> LoggedPages::next(guestmem::AddressSpace& memory,
                                                           std::size_t bytes_max) {
  while (run_ == run_count_) {
    if (collected_) return std::nullopt;
    const auto found = memory.collect_log(from_, runs_);
    if (!found) return Failure(found.error());
    run_ = 0;
    run_count_ = found->run_count;
    from_ = found->next;
    collected_ = found->is_end;
  }
  guestmem::PageRun& run = runs_[run_];
  const guestmem::PageRun taken{run.begin,
                                std::min<std::uint64_t>(run.page_count, bytes_max / guestmem::kPageBytes)};
  run.begin.value += taken.page_count * guestmem::kPageBytes;
  run.page_count -= taken.page_count;
  if (run.page_count == 0) ++run_;
  return taken;
}

}  // namespace pvrdma::moves
