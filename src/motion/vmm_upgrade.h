// VmmUpgrade: moves a running VM to a new QEMU of its host, with its adapter and all its connections.
//
// QEMU's cpr-transfer moves the machine: the new process takes over the guest's memory as it is. cpr-transfer
// does not know the adapter's PCI state and MSI-X table, so the monitor restores them. The daemon moves the
// adapter's own state from one process's connection to the other's. If anything fails before the new QEMU
// runs the VM, the VM goes on in the old one.
//
// Thread: one, which may block.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <sys/types.h>
#include <utility>

#include "base/result.h"
#include "base/time.h"
#include "motion/adapter_side.h"
#include "motion/upgrade_service.h"
#include "vmm/monitor.h"
#include "vmm/pci.h"
#include "vmm/vm_monitors.h"

namespace pvrdma::motion {

class VmmUpgrade {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(10);  // for QEMU's transfer

  // `side` is borrowed. `sockets` are the sockets where the new QEMU waits. It must be started with -S, with
  // `-incoming unix:MAIN` and with an `-incoming` of channel type cpr at CPR.
  VmmUpgrade(UpgradeWish wish, vmm::VmMonitors sockets, AdapterSide& side)
      : wish_(std::move(wish)), sockets_(std::move(sockets)), side_(side) {}

  // Call it once. The error is a sentence that says what failed and which QEMU has the VM now.
  Result<UpgradeReport> run();

 private:
  Result<void> open();
  Result<void> transfer();
  Result<void> hand_over();
  Result<void> go_on();
  Result<void> leave();
  Result<void> wait_for_new();
  Result<void> restore_in(vmm::Monitor& monitor);
  Error undo(Error why);
  Result<void> undo_all();

  const UpgradeWish wish_;
  const vmm::VmMonitors sockets_;
  AdapterSide& side_;
  std::unique_ptr<vmm::Monitor> old_;
  std::unique_ptr<vmm::Monitor> new_;
  UpgradeReport report_;
  Instant ran_last_{};        // when the VM was last seen to run in the old QEMU
  bool was_running_ = false;  // false: it was paused before, and stays so
  bool expecting_ = false;
  bool began_ = false;     // QEMU's migration has started
  vmm::PciPlace place_;    // of the device, in both QEMUs
  vmm::PciImage image_;    // the PCI state of the old QEMU
  bool silenced_ = false;  // the old QEMU has no interrupt vectors any more
  bool switched_ = false;
};

}  // namespace pvrdma::motion
