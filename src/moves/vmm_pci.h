// VmmPci: reads and writes the PCI state of an adapter in its VMM. The VMM has no interface for its MSI-X
// table. So the table is read and written as the guest does it, by accesses to the guest-physical address of
// its BAR.
//
// Thread: any but a shard's.
#pragma once

#include <string>

#include "adapters/shards.h"
#include "base/result.h"
#include "device/pci_state.h"
#include "motion/adapter_side.h"

namespace pvrdma::moves {

vmm::PciImage image_of(const device::PciState& state);

// What the questions of moves to a shard are called in the log.
inline constexpr const char* kHandOver = "a hand-over";

class VmmPci {
 public:
  using Vmm = motion::AdapterSide::Vmm;

  // Borrowed.
  explicit VmmPci(const adapters::Shards& shards) : shards_(shards) {}

  // As in motion::AdapterSide.
  Result<vmm::PciImage> image(const std::string& adapter, Vmm vmm);
  Result<void> write_msix_table(const std::string& adapter, Vmm vmm, const vmm::PciImage& image);
  Result<void> check(const std::string& adapter, Vmm vmm, const vmm::PciImage& image);

 private:
  Result<device::PciState> state(const std::string& adapter, Vmm vmm);
  // Sends the VMM a message about its MSI-X table. Returns the VMM's answer; it is empty for a write.
  Result<device::MsixTable> exchange_table(const std::string& adapter, Vmm vmm,
                                           const device::MsixTable* written);

  const adapters::Shards& shards_;
};

}  // namespace pvrdma::moves
