// LoggedPages: takes the pages that an adapter has written out of its log, run by run.
//
// Thread: shard-owned.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "base/result.h"
#include "guestmem/address_space.h"

namespace pvrdma::moves {

class LoggedPages {
 public:
  // Takes the next consecutive pages, of at most `bytes_max`, out of the log of `memory`. Pass the same
  // memory in each call. Nothing: no pages are left. Errors: those of AddressSpace::collect_log().
  Result<std::optional<guestmem::PageRun>> next(guestmem::AddressSpace& memory, std::size_t bytes_max);

 private:
  std::array<guestmem::PageRun, 256> runs_{};
  std::size_t run_ = 0;
  std::size_t run_count_ = 0;
  guestmem::GuestPhys from_{};
  bool collected_ = false;
};

}  // namespace pvrdma::moves
