// VmmPci: the PCI state of an adapter as a VMM has it. The VMM keeps the MSI-X table to itself: it is read
// and written as the guest would, by accesses to the guest-physical address of its BAR.
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

class VmmPci {
 public:
  using Vmm = motion::AdapterSide::Vmm;

  // Both borrowed. `adapters` is used on the shard only.
  VmmPci(shard::Loop& loop, const adapters::AdapterSet& adapters) : loop_(loop), adapters_(adapters) {}

  // As motion::AdapterSide's.
  Result<vmm::PciImage> image(const std::string& adapter, Vmm vmm);
  Result<void> write_msix_table(const std::string& adapter, Vmm vmm, const vmm::PciImage& image);
  Result<void> check(const std::string& adapter, Vmm vmm, const vmm::PciImage& image);

 private:
  Result<device::PciState> state(const std::string& adapter, Vmm vmm);
  // A message to the VMM about its MSI-X table. What it answered; empty for a write.
  Result<device::MsixTable> exchange_table(const std::string& adapter, Vmm vmm,
                                           const device::MsixTable* written);

  shard::Loop& loop_;
  const adapters::AdapterSet& adapters_;
};

}  // namespace pvrdma::moves
