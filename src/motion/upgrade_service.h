// UpgradeService: lets a VM go on in another QEMU of its host.
//
// Thread: any that may block.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "motion/qemu_process.h"

namespace pvrdma::motion {

// Monitors are paths of QMP sockets; empty: where vmm/vm_monitors.h has them.
struct UpgradeWish {
  std::string adapter;      // the VM's
  std::string monitor;      // of the QEMU that runs the VM
  std::string new_monitor;  // comes up when the new QEMU has the memory
};

struct UpgradeReport {
  std::string vm;
  QemuProcess from;
  QemuProcess to;
  Duration pause{};  // the VM stood, as its monitor showed
  // Of it.
  Duration qemu{};     // until the new QEMU had the machine
  Duration restore{};  // PCI state
  Duration adapter{};  // the adapter's state
  std::uint64_t state_bytes = 0;
};

class UpgradeService {
 public:
  virtual ~UpgradeService() = default;

  // Blocks until it is over, half a minute at most. Errors: ENXIO: no such adapter; otherwise one sentence
  // that says what failed and which QEMU has the VM now.
  virtual Result<UpgradeReport> upgrade(const UpgradeWish& wish) = 0;
};

}  // namespace pvrdma::motion
