// MovingSide: what a VM's way to another host asks, besides, of the thread that serves its adapter.
//
// Calls, thread and errors: as StandingSide's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

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
  // Gives them to `take` instead, neighbours together, and forgets them. The guest and the adapter stand.
  // Errors, besides: what `take` returns; EFAULT: some are no RAM any more.
  struct Pages {
    std::uint64_t address = 0;  // guest-physical
    std::vector<std::byte> bytes;
  };
  static constexpr std::size_t kPagesBytesMax = 1u << 20;
  using TakePages = std::function<Result<void>(const Pages& pages)>;
  virtual Result<void> give_pages(const std::string& adapter, const TakePages& take) = 0;
  // Somebody else leads its VMM. From now on the adapter outlives it: when the VMM goes, the adapter is
  // stopped, and all that it had stays. One that is stopped goes on when the guest does. stop() may find it
  // stopped.
  virtual Result<void> outlive_vmm(const std::string& adapter) = 0;
  // No more: the adapter of a VMM that has gone ends as ever.
  virtual Result<void> end_with_vmm(const std::string& adapter) = 0;
  // Its VMM has not closed its end.
  virtual Result<bool> has_vmm(const std::string& adapter) = 0;
  // As save(), of one that works, and goes on working: a state like that which it will have.
  virtual Result<std::vector<std::byte>> draft(const std::string& adapter, const vmm::PciImage& image) = 0;
  // The VM is the other host's.
  virtual Result<void> depart(const std::string& adapter) = 0;

  // --- On the host that it comes to ---

  // There is an adapter that waits for it, with a VMM.
  virtual Result<bool> is_expected(const std::string& adapter) = 0;
  // What load() brought is forgotten: the adapter is as that of a VM that has not begun.
  virtual Result<void> unload(const std::string& adapter) = 0;
  // What the adapter had written elsewhere. EFAULT: there is no such RAM here.
  virtual Result<void> put_pages(const std::string& adapter, std::uint64_t address,
                                 std::vector<std::byte> bytes) = 0;
  // The VM is this host's: its adapter works.
  virtual Result<void> arrive(const std::string& adapter) = 0;
  // What it sent may have come before the news of where it is: it sends again what is not answered.
  virtual Result<void> nudge(const std::string& adapter) = 0;
};

}  // namespace pvrdma::motion
