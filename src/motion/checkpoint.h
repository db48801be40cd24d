// Checkpoint: a VM's QEMU writes the VM to a file of its host, so that it can be restored later (restore.h).
// The caller keeps the bytes of the adapter's state beside the file.
//
// The VM is paused before anything is written. So the file has the final contents of all memory, including
// what the daemon wrote. The VM stays paused until finish(), which ends its QEMU, or until the checkpoint is
// destroyed, which lets the VM run again.
//
// Thread: one, which may block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "motion/adapter_side.h"
#include "motion/checkpoint_service.h"
#include "motion/qemu_process.h"
#include "vmm/migration.h"
#include "vmm/monitor.h"

namespace pvrdma::motion {

struct CheckpointReport {
  QemuProcess qemu;
  std::uint64_t ram_bytes = 0;
  Duration took{};  // how long the VM was paused
};

class Checkpoint {
 public:
  // Called now and then with QEMU's progress. Returning false gives up.
  using Progress = std::function<bool(const vmm::MigrationStatus& status)>;

  // `side` is borrowed.
  Checkpoint(CheckpointWish wish, AdapterSide& side) : wish_(std::move(wish)), side_(side) {}
  // Calls abandon(), unless finish() was called.
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  // Call it once. The error text says what failed and what the VM does now. ECANCELED: `progress` returned
  // false.
  Result<CheckpointReport> take(const Progress& progress);
  // The adapter's state. Call it once, after take().
  std::vector<std::byte> take_state() { return std::move(state_); }

  // The caller has stored the file and the state, so the QEMU ends.
  Result<void> finish();
  // Lets the VM run again, in the same QEMU.
  Result<void> abandon();

 private:
  Result<void> open();
  Result<void> stop();
  Result<void> write(const Progress& progress);

  const CheckpointWish wish_;
  AdapterSide& side_;
  std::unique_ptr<vmm::Monitor> monitor_;
  std::vector<std::byte> state_;
  CheckpointReport report_;
  Instant stood_{};              // when the VM was paused
  vmm::MigrationSettings kept_;  // the settings that QEMU had before
  bool was_running_ = false;     // false: it was paused before, and stays so
  bool changed_ = false;         // QEMU's VM or settings were changed
  bool stopped_ = false;         // the adapter was stopped
};

}  // namespace pvrdma::motion
