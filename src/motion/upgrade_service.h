// UpgradeService: moves a VM to another QEMU of the same host.
//
// Thread: any that may block.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "motion/qemu_process.h"

namespace pvrdma::motion {

// Monitors are paths of QMP sockets; empty: the paths that vmm/vm_monitors.h gives.
struct UpgradeWish {
  std::string adapter;      // the VM's
  std::string monitor;      // of the QEMU that runs the VM now
  std::string new_monitor;  // exists once the new QEMU has the memory
};

struct UpgradeReport {
  std::string vm;
  QemuProcess from;
  QemuProcess to;
  Duration pause{};  // how long the VM was paused, as its monitor showed
  // The parts of `pause`.
  Duration qemu{};     // until the new QEMU had the machine
  Duration restore{};  // restoring the PCI state
  Duration adapter{};  // handing over the adapter's state
  std::uint64_t state_bytes = 0;
};

class UpgradeService {
 public:
  virtual ~UpgradeService() = default;

  // Blocks until it is over, half a minute at most. Errors: kNotFound: no such adapter; kInvalid: a
  // monitor's path is refused; kUnavailable: the shard or a QEMU did not answer in time; otherwise kConflict.
  // The sentence says what failed and which QEMU has the VM now.
  virtual Result<UpgradeReport> upgrade(const UpgradeWish& wish) = 0;
};

}  // namespace pvrdma::motion
