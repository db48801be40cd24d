// StandingSide: what a motion of a VM that stands asks of the thread that serves its adapter: to stop it, to
// save it, and to let it go on from what was saved.
//
// Every call blocks for a bounded time. Errors of all of them: ENOENT: no such adapter; otherwise the shard
// is stopping or did not answer in time.
//
// Thread: any but the shard's.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "vmm/pci.h"

namespace pvrdma::motion {

class StandingSide {
 public:
  virtual ~StandingSide() = default;

  // From now on nothing of the guest's changes here, and its link stays as it sees it; its peers repeat.
  // Errors: EPERM: its VM is off; EBUSY: the VMM moves it, or has a successor.
  virtual Result<void> stop(const std::string& adapter) = 0;
  // A stopped one works again.
  virtual Result<void> go_on(const std::string& adapter) = 0;
  // The guest goes on in another VMM: it is told to look at what came meanwhile.
  virtual Result<void> resume(const std::string& adapter) = 0;

  // As AdapterSide's.
  virtual Result<vmm::PciImage> pci_image(const std::string& adapter) = 0;
  // A stopped one as bytes, with its PCI state. Errors: EPIPE: it works again; E2BIG: it has more than
  // kStateBytesMax.
  static constexpr std::size_t kStateBytesMax = 64u << 20;
  virtual Result<std::vector<std::byte>> save(const std::string& adapter, const vmm::PciImage& image) = 0;

  // The adapter of a VM that has not begun becomes the saved one, and is stopped; the PCI state that it had.
  // Errors, all is as before then: EINVAL: what device::Adapter::load() refuses; as stop().
  virtual Result<vmm::PciImage> load(const std::string& adapter, std::vector<std::byte> state) = 0;
  // Writes the MSI-X table of the adapter's VMM.
  virtual Result<void> write_own_msix_table(const std::string& adapter, const vmm::PciImage& image) = 0;
  // Whether the adapter has this PCI state, and a vector for each that is not masked. Error: the first
  // difference.
  virtual Result<void> check_own(const std::string& adapter, const vmm::PciImage& image) = 0;
};

}  // namespace pvrdma::motion
