// LoggedPages: the pages that an adapter has written, as its log has them, run by run.
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
  // Takes the next ones, neighbours, of `bytes_max` at most, out of the log of `memory`, the same in each
  // call. Nothing: there is none any more. Errors: AddressSpace::collect_log()'s.
  Result<std::optional<guestmem::PageRun>> next(guestmem::AddressSpace& memory, std::size_t bytes_max);

 private:
  std::array<guestmem::PageRun, 256> runs_{};
  std::size_t run_ = 0;
  std::size_t run_count_ = 0;
  guestmem::GuestPhys from_{};
  bool collected_ = false;
};

}  // namespace pvrdma::moves
