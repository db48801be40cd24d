// AdapterSide: what a motion asks of the thread that serves the adapters.
//
// Every call blocks for a bounded time. Errors of all of them: ENOENT: no such adapter; otherwise the shard
// is stopping or did not answer in time.
//
// Thread: any but the shard's.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "vmm/pci.h"

namespace pvrdma::motion {

class AdapterSide {
 public:
  virtual ~AdapterSide() = default;

  // From now on the next client of the adapter's socket becomes its successor. Errors: EPERM: its VM is off,
  // or no client is let in; EBUSY: one is expected, or here.
  virtual Result<void> expect_successor(const std::string& adapter) = 0;
  // Whether it is here and has agreed upon the version. EPIPE: the adapter's own VMM has left, or nobody is
  // expected any more.
  virtual Result<bool> successor_is_here(const std::string& adapter) = 0;

  // The PCI state as the adapter's VMM has it. Without the MSI-X table while the guest has its memory
  // decoding or bus mastering off: the VMM lets nobody look at it then.
  virtual Result<vmm::PciImage> pci_image(const std::string& adapter) = 0;
  // Writes the MSI-X table of the successor's VMM.
  virtual Result<void> write_msix_table(const std::string& adapter, const vmm::PciImage& image) = 0;
  // Whether the successor has this PCI state, and as many vectors as the adapter. Error: the first
  // difference.
  virtual Result<void> check_successor(const std::string& adapter, const vmm::PciImage& image) = 0;

  struct SwitchedOver {
    std::uint64_t state_bytes = 0;
    Duration took{};
  };
  // The guest's adapter becomes the successor's, with all connections, and the one that had it the successor:
  // called again, it goes back. The guest stands. Refused: all is as before.
  virtual Result<SwitchedOver> switch_over(const std::string& adapter) = 0;
  // The guest goes on: it is told to look at what came meanwhile.
  virtual Result<void> resume(const std::string& adapter) = 0;
  // Sends the successor away, whoever of the two it is now.
  virtual Result<void> end_successor(const std::string& adapter) = 0;
};

}  // namespace pvrdma::motion
