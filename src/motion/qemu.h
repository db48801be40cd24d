// Qemu: a QEMU with our device, as a motion finds it through its monitor.
//
// Thread and errors: as vmm::Monitor's.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "vmm/migration.h"
#include "vmm/monitor.h"
#include "vmm/pci.h"

namespace pvrdma::motion {

struct Qemu {
  std::unique_ptr<vmm::Monitor> monitor;
  std::string version;
  std::string state;  // vmm::run_state()
  vmm::MigrationStatus migration;
  vmm::PciPlace place;  // of the device
};

// Asks once. Further errors: those of find_device().
Result<Qemu> open_qemu(const std::string& monitor);

// kConflict unless its VM runs or is paused, and no migration is under way.
Result<void> check_settled(const Qemu& qemu, const std::string& vm);
// kConflict unless it waits for an incoming VM.
Result<void> check_waits(const Qemu& qemu, const std::string& vm);

// Replaces a monitor connection that gave no answer in time, because it gives no answers any more. Errors: as
// Monitor::connect(); then the old connection stays, and is still of no use.
Result<void> renew(std::unique_ptr<vmm::Monitor>& monitor);

// Ends a QEMU, over a new connection if the old one is of no use. A QEMU that has gone has ended, too; one
// that cannot be asked has not. Errors: as renew(), execute().
Result<void> quit(std::unique_ptr<vmm::Monitor>& monitor);
// Ends a QEMU that waited for a VM, if it can be reached. Returns what became of it, for use in a sentence.
std::string end_qemu(std::unique_ptr<vmm::Monitor>& monitor);

// How long to try to let a paused VM run: another QEMU may still hold its disks.
inline constexpr Duration kContinuePatience = std::chrono::seconds(5);
// Lets a paused VM run again. Tries for kContinuePatience.
Result<void> continue_vm(vmm::Monitor& monitor);

}  // namespace pvrdma::motion
