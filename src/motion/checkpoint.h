// Checkpoint: a VM is written to a file of its host by its QEMU, to go on from there later (restore.h). Its
// adapter's state goes beside it: whoever leads this keeps the bytes.
//
// The VM stands before anything is written: so all of its memory is in the file as it was last, what the
// daemon wrote included. It stands until finish(), which ends its QEMU, or until the checkpoint is destroyed,
// which lets it go on.
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
  Duration took{};  // the VM stands for so long
};

class Checkpoint {
 public:
  // Told of QEMU's progress, now and then. False: give up.
  using Progress = std::function<bool(const vmm::MigrationStatus& status)>;

  // `side` is borrowed.
  Checkpoint(CheckpointWish wish, AdapterSide& side) : wish_(std::move(wish)), side_(side) {}
  // Abandons what was not finished.
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  // Once. The error is a sentence that says what failed and what the VM does now; ECANCELED: `progress` gave
  // up.
  Result<CheckpointReport> take(const Progress& progress);
  // After take(), once: the adapter's state.
  std::vector<std::byte> take_state() { return std::move(state_); }

  // The file and the state are safe: the QEMU ends.
  Result<void> finish();
  // The VM goes on, in the same QEMU.
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
  Instant stood_{};              // since then
  vmm::MigrationSettings kept_;  // QEMU's, from before
  bool was_running_ = false;     // else it was paused, and stays so
  bool changed_ = false;         // QEMU's VM or settings
  bool stopped_ = false;         // the adapter
};

}  // namespace pvrdma::motion
