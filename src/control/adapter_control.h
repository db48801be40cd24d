// AdapterControl: what the control plane may change about running adapters. Thread: any thread but the
// shard's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_stream.h"
#include "base/result.h"
#include "transport/hca/check.h"

namespace pvrdma::control {

// A VM is to go on in another QEMU of its host. An empty path: where api/vm_monitors.h has it.
struct UpgradeVmmWish {
  std::string adapter;  // the VM's
  std::string monitor;  // path of the QMP socket of the QEMU that runs it
  std::string new_monitor;
};

struct QemuProcess {
  std::string version;
  std::uint32_t pid = 0;
};

struct UpgradedVmm {
  std::string vm;
  QemuProcess from;
  QemuProcess to;
  // Microseconds.
  std::uint64_t pause_us = 0;    // the VM stood
  std::uint64_t qemu_us = 0;     // of it: until the new QEMU had the machine
  std::uint64_t restore_us = 0;  // of it: PCI state
  std::uint64_t adapter_us = 0;  // of it: the adapter's state
  std::uint64_t state_bytes = 0;
};

// A VM is to be written to a file of its host, or to go on from there. An empty monitor: where
// api/vm_monitors.h has it.
struct CheckpointWish {
  std::string adapter;  // the VM's
  std::string file;     // absolute
  std::string monitor;  // path of the QMP socket of its QEMU
};

struct RestoredVm {
  std::string vm;
  QemuProcess qemu;
  std::uint64_t took_us = 0;
};

// Who has the VM's QEMUs migrate.
enum class MotionLeader : std::uint8_t { kDaemons, kLibvirt };

// A running VM of this host is to go to another one (vMotion). An empty monitor: where api/vm_monitors.h has
// it.
struct MotionWish {
  std::string vm;
  std::string to;
  std::string monitor;
  std::uint32_t max_pause_ms = 0;
  std::uint32_t patience_s = 0;  // for a QEMU there, and for the guest's memory
  MotionLeader leader = MotionLeader::kDaemons;
};

// One that is under way, or ended on this host since the daemon began.
struct MotionState {
  std::string id;
  std::string vm;
  std::string from;
  std::string to;
  std::string state;  // "runs", "done", "failed"
  std::string phase;  // of one that runs
  std::string error;  // of one that failed: one sentence
  std::string since;  // when it began, UTC
  std::uint64_t ram_bytes = 0;
  std::uint64_t remaining_bytes = 0;
  // Of one that is done, on the host that the VM left. Bytes and microseconds.
  std::uint64_t page_bytes = 0;  // that the adapter had written
  std::uint64_t state_bytes = 0;
  std::uint64_t took_us = 0;
  std::uint64_t pause_us = 0;   // the VM stood
  std::uint64_t freeze_us = 0;  // of it: the adapter was stopped
  std::uint64_t pages_us = 0;   // shown to QEMU
  std::uint64_t state_us = 0;   // saved and sent
  std::uint64_t memory_us = 0;  // QEMU's rest, and the state loaded there
  std::uint64_t commit_us = 0;
  std::uint64_t go_on_us = 0;
};

// Of motions that ended on this host since the daemon began.
struct MotionCounters {
  std::uint64_t left = 0;    // VMs that went
  std::uint64_t stayed = 0;  // that were to go, and did not
  std::uint64_t came = 0;
  std::uint64_t not_come = 0;  // that were to come, and did not
  std::uint64_t pause_us = 0;  // of those that went, together
  std::uint64_t state_bytes = 0;
  std::uint64_t page_bytes = 0;
};

using transport::HcaCheck;
using transport::HcaCheckWish;

class AdapterControl {
 public:
  virtual ~AdapterControl() = default;
  // Blocks until it is over, half a minute at most. Errors: ENXIO, no such adapter; otherwise one sentence
  // that says what failed and which QEMU has the VM now.
  virtual Result<UpgradedVmm> upgrade_vmm(const UpgradeVmmWish& wish) = 0;
  // Begins a checkpoint. What comes: lines of JSON (api/answers.h, CheckpointLine), and behind the one that
  // says how many, the bytes of the adapter's state; then nothing until finish_checkpoint(), for
  // kCheckpointPatience at most. When the stream is destroyed before that, or ends with an error, the VM goes
  // on. Errors: ENOENT, no such adapter; EBUSY, one is under way, or too many are; otherwise the shard is
  // stopping or did not answer in time.
  virtual Result<std::unique_ptr<ByteStream>> start_checkpoint(const CheckpointWish& wish) = 0;
  // Who asked for it has all of it: its QEMU ends. Blocks for a bounded time. Errors: ENOENT, there is none,
  // or not all of it has come; otherwise the QEMU does not end.
  virtual Result<void> finish_checkpoint(const std::string& adapter) = 0;
  // Lets a VM go on in a QEMU that waits, with what a checkpoint gave as `state`. Blocks until it does, ten
  // minutes at most. Errors: ENXIO, no such adapter; otherwise one sentence.
  virtual Result<RestoredVm> restore(const CheckpointWish& wish, std::string_view state) = 0;
  // A saved state as text, a field a line; what is none, up to where it is none.
  virtual std::string print_state(std::string_view state) = 0;
  // Begins it and returns. Errors: one sentence; ENOENT: no such VM; EBUSY: it is on its way, or too many
  // are; otherwise what forbids it.
  virtual Result<MotionState> start_motion(const MotionWish& wish) = 0;
  // What can be found out without moving anything, from both hosts. Blocks for some seconds at most.
  virtual Result<void> check_motion(const MotionWish& wish) = 0;
  // Those of this host, by VM: the newest of each.
  virtual std::vector<MotionState> list_motions() = 0;
  virtual MotionCounters motion_counters() = 0;
  // Gives it up, unless it is too late. Errors: ENOENT: none runs; EBUSY: the VM may be there already.
  virtual Result<void> cancel_motion(const std::string& vm) = 0;
  // Blocks for some seconds. Errors: ENOENT: no such device; EBUSY: one is being checked; otherwise what the
  // device refused.
  virtual Result<HcaCheck> check_hca(const HcaCheckWish& wish) = 0;
};

}  // namespace pvrdma::control
