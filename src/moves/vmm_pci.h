// VmmPci: reads and writes the PCI state of an adapter in its VMM. The VMM has no interface for its MSI-X
// table. So the table is read and written as the guest does it, by accesses to the guest-physical address of
// its BAR.
//
// Thread: any but the shard's.
#pragma once

#include <string>

#include "adapters/adapter_set.h"
#include "base/result.h"
#include "device/pci_state.h"
#include "motion/adapter_side.h"
#include "shard/loop.h"

namespace pvrdma::moves {

vmm::PciImage image_of(const device::PciState& state);

class VmmPci {
 public:
  using Vmm = motion::AdapterSide::Vmm;

  // Both are borrowed. `adapters` is used on the shard only.
  VmmPci(shard::Loop& loop, const adapters::AdapterSet& adapters) : loop_(loop), adapters_(adapters) {}

  // As in motion::AdapterSide.
  Result<vmm::PciImage> image(const std::string& adapter, Vmm vmm);
  Result<void> write_msix_table(const std::string& adapter, Vmm vmm, const vmm::PciImage& image);
  Result<void> check(const std::string& adapter, Vmm vmm, const vmm::PciImage& image);

 private:
  Result<device::PciState> state(const std::string& adapter, Vmm vmm);
  // Sends the VMM a message about its MSI-X table. Returns the VMM's answer; it is empty for a write.
  Result<device::MsixTable> exchange_table(const std::string& adapter, Vmm vmm,
                                           const device::MsixTable* written);

  shard::Loop& loop_;
  const adapters::AdapterSet& adapters_;
};

}  // namespace pvrdma::moves
