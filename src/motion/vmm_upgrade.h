// VmmUpgrade: a running VM goes on in a new QEMU of its host, with its adapter and all its connections.
//
// QEMU's cpr-transfer moves the machine: the new process takes over the guest's memory as it is. What it does
// not know of the adapter (PCI state, MSI-X table) is restored by the monitor, and the daemon moves the
// adapter's own state between the two processes' connections. Until the new QEMU runs the VM, whatever fails
// lets the VM go on in the old one.
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
  static constexpr Duration kPatience = std::chrono::seconds(10);  // with QEMU's transfer

  // `side` is borrowed.
  // `sockets`: where the new QEMU waits. It was started with -S, as `-incoming unix:MAIN` and an `-incoming`
  // of channel type cpr at CPR.
  VmmUpgrade(UpgradeWish wish, vmm::VmMonitors sockets, AdapterSide& side)
      : wish_(std::move(wish)), sockets_(std::move(sockets)), side_(side) {}

  // Once. The error is a sentence that says what failed and who has the VM now.
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
  Instant ran_last_{};        // when the VM was seen to run in the old QEMU
  bool was_running_ = false;  // else it was paused, and stays so
  bool expecting_ = false;
  bool began_ = false;     // QEMU's migration
  vmm::PciPlace place_;    // of the device, in both
  vmm::PciImage image_;    // what the old one had
  bool silenced_ = false;  // the old one has no vectors
  bool switched_ = false;
};

}  // namespace pvrdma::motion
