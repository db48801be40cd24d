// MotionService: an operator's requests about VMs that leave this host for another one (vMotion).
//
// Thread: any that may block.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace pvrdma::motion {

// Who makes the QEMUs of both hosts migrate, and so decides which of them has the VM.
enum class Leader : std::uint8_t { kDaemons, kLibvirt };

struct Motion {
  std::string id;
  std::string vm;
  std::string from;
  std::string to;
};

// Describes a motion to start: a running VM of this host goes to another host.
struct MotionWish {
  std::string vm;
  std::string to;
  std::string monitor;  // path of its QEMU's QMP socket; empty: the path that vmm/vm_monitors.h gives
  Duration max_pause = std::chrono::milliseconds(500);
  Duration patience = std::chrono::minutes(10);  // until a QEMU waits there and nearly all memory is copied
  Leader leader = Leader::kDaemons;
};

// What a motion moved, and how long its parts took.
struct MotionReport {
  std::uint64_t ram_bytes = 0;
  std::uint64_t page_bytes = 0;  // pages that the adapter had written
  std::uint64_t state_bytes = 0;
  Duration took{};
  Duration pause{};  // how long the VM was paused, from QEMU's stop here to its start there
  // The parts of `pause`.
  Duration freeze{};  // stopping the adapter
  Duration pages{};   // showing the written pages to QEMU
  Duration state{};   // saving and sending the adapter's state
  Duration memory{};  // QEMU sends the last memory, while the other host loads the state
  Duration commit{};
  Duration go_on{};        // starting the VM there
  std::string left_to_do;  // a sentence: what the operator has to do; empty: nothing
  bool is_lost = false;    // the VM is there without its connections; left_to_do says so
};

// A motion that runs, or that has ended on this host since the daemon started. Its report is complete when it
// is done.
struct MotionState : Motion, MotionReport {
  std::string state;  // "runs", "done", "failed"
  std::string phase;  // of a running motion
  std::string error;  // of a failed motion: one sentence
  std::string since;  // when it started, UTC
  std::uint64_t remaining_bytes = 0;
};

// Counts motions that ended on this host since the daemon started.
struct MotionCounters {
  std::uint64_t left = 0;    // VMs that left
  std::uint64_t stayed = 0;  // VMs that were to leave and did not
  std::uint64_t came = 0;
  std::uint64_t not_come = 0;  // VMs that were to come and did not
  std::uint64_t pause_us = 0;  // the pauses of the VMs that left, together
  std::uint64_t state_bytes = 0;
  std::uint64_t page_bytes = 0;
};

class MotionService {
 public:
  virtual ~MotionService() = default;

  // Starts a motion and returns. The error is one sentence. kNotFound: no such VM; kConflict: it is already
  // moving, or too many motions run; otherwise a rule forbids it.
  virtual Result<MotionState> start(const MotionWish& wish) = 0;
  // Checks on both hosts what can be checked without moving anything. Blocks for some seconds at most.
  // Errors: those of start(); also kConflict: the VM's QEMU is not in the state that a motion needs, or the
  // other host refuses the VM; kUnavailable: the other host or the QEMU does not answer.
  virtual Result<void> check(const MotionWish& wish) = 0;
  // The newest motion of each VM of this host, sorted by VM.
  virtual std::vector<MotionState> list() = 0;
  virtual MotionCounters counters() = 0;
  // Cancels a motion, unless it is too late. Errors: kNotFound: no motion runs; kConflict: the VM may be
  // there already.
  virtual Result<void> cancel(const std::string& vm) = 0;
};

}  // namespace pvrdma::motion
