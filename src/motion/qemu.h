// Qemu: a QEMU with our device, as a motion finds it at its monitor.
//
// Thread and errors: as vmm::Monitor's.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
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

// Asks once. Errors, besides: find_device()'s.
Result<Qemu> open_qemu(const std::string& monitor);

// EBUSY unless its VM runs, or is paused, and it does not migrate.
Result<void> check_settled(const Qemu& qemu, const std::string& vm);
// EBUSY unless it waits for a VM to come.
Result<void> check_waits(const Qemu& qemu, const std::string& vm);

// One that gave no answer in time gives none any more: a new connection may. Errors: as Monitor::connect();
// it is of no use then, as before.
Result<void> renew(std::unique_ptr<vmm::Monitor>& monitor);

// That waited for a VM: it ends, as far as it can be reached. What became of it, for a sentence.
std::string end_qemu(std::unique_ptr<vmm::Monitor>& monitor);

// A VM that stands runs again. Its disks may be another QEMU's for a moment more: tried for some seconds.
Result<void> continue_vm(vmm::Monitor& monitor);

}  // namespace pvrdma::motion
