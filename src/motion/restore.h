// Restore: a VM goes on from a checkpoint (checkpoint.h), in a QEMU that was started to wait for it, on the
// same host or on another one that has the same VM.
//
// Its adapter is loaded and its PCI state restored before QEMU reads the file: what is refused has changed
// nothing there, and the QEMU goes on waiting. From then on a failure ends the QEMU, and the file is as it
// was.
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
  static constexpr Duration kPatience = std::chrono::minutes(10);  // with QEMU's reading

  // The daemon ends: nothing is waited for any more.
  using Stopping = std::function<bool()>;

  // `side` is borrowed.
  // `wish` names the QEMU that waits, and the file. `state`: as the checkpoint gave it.
  Restore(CheckpointWish wish, std::vector<std::byte> state, AdapterSide& side, Stopping stopping)
      : wish_(std::move(wish)), state_(std::move(state)), side_(side), stopping_(std::move(stopping)) {}

  // Once. The error is a sentence.
  Result<RestoreReport> run();

 private:
  Result<void> open();
  Result<void> load();
  Result<void> read();
  Result<void> go_on();

  const CheckpointWish wish_;
  std::vector<std::byte> state_;  // until the adapter has it
  AdapterSide& side_;
  const Stopping stopping_;
  std::unique_ptr<vmm::Monitor> monitor_;
  vmm::PciPlace place_;
  vmm::PciImage image_;
  RestoreReport report_;
  bool loaded_ = false;  // the adapter, and the VM does not run yet
};

}  // namespace pvrdma::motion
