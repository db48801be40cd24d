// Restore: a VM goes on from a checkpoint (checkpoint.h) in a QEMU that was started to wait for it, on the
// same host or on another host that has the same VM.
//
// The adapter is loaded and its PCI state restored before QEMU reads the file. If loading is refused, nothing
// has changed, and the QEMU still waits. After that a failure ends the QEMU; the file is never changed.
//
// Thread: one, which may block.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "motion/adapter_side.h"
#include "motion/checkpoint_service.h"
#include "vmm/monitor.h"
#include "vmm/pci.h"

namespace pvrdma::motion {

class Restore {
 public:
  static constexpr Duration kPatience = std::chrono::minutes(10);  // for QEMU to read the file

  // Returns true when the daemon ends: then nothing is waited for any more.
  using Stopping = std::function<bool()>;

  // `side` is borrowed. `wish` names the QEMU that waits, and the file. `state` is what the checkpoint gave.
  Restore(CheckpointWish wish, std::vector<std::byte> state, AdapterSide& side, Stopping stopping)
      : wish_(std::move(wish)), state_(std::move(state)), side_(side), stopping_(std::move(stopping)) {}

  // Call it once. The error is a sentence.
  Result<RestoreReport> run();

 private:
  Result<void> open();
  Result<void> load();
  Result<void> read();
  Result<void> go_on();

  const CheckpointWish wish_;
  std::vector<std::byte> state_;  // empty once the adapter has it
  AdapterSide& side_;
  const Stopping stopping_;
  std::unique_ptr<vmm::Monitor> monitor_;
  vmm::PciPlace place_;
  vmm::PciImage image_;
  RestoreReport report_;
  bool loaded_ = false;  // the adapter is loaded, and the VM does not run yet
};

}  // namespace pvrdma::motion
