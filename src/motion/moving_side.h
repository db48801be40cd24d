// MovingSide: what a VM's way to another host asks, besides, of the thread that serves its adapter.
//
// Calls, thread and errors: as StandingSide's.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "motion/standing_side.h"

namespace pvrdma::motion {

class MovingSide : public StandingSide {
 public:
  // --- On the host that it leaves ---

  // From now on the pages that the adapter writes are remembered. EBUSY: its VMM has them remembered.
  virtual Result<void> begin_log(const std::string& adapter) = 0;
  virtual Result<void> end_log(const std::string& adapter) = 0;
  // Of those remembered.
  virtual Result<std::uint64_t> logged_bytes(const std::string& adapter) = 0;
  // Shows them to the VMM, as writes of what they hold, and forgets them. The guest and the adapter stand.
  // Returns when the VMM has them all.
  virtual Result<void> mark_pages(const std::string& adapter) = 0;
  // The VM is the other host's.
  virtual Result<void> depart(const std::string& adapter) = 0;

  // --- On the host that it comes to ---

  // There is an adapter that waits for it, with a VMM.
  virtual Result<bool> is_expected(const std::string& adapter) = 0;
  // The VM is this host's: its adapter works.
  virtual Result<void> arrive(const std::string& adapter) = 0;
  // What it sent may have come before the news of where it is: it sends again what is not answered.
  virtual Result<void> nudge(const std::string& adapter) = 0;
};

}  // namespace pvrdma::motion
