// MotionService: what an operator may ask about VMs that leave this host for another one (vMotion).
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

// Who has the QEMUs of both hosts migrate, and so decides which of them has the VM.
enum class Leader : std::uint8_t { kDaemons, kLibvirt };

struct Motion {
  std::string id;
  std::string vm;
  std::string from;
  std::string to;
};

// A running VM of this host is to go to another host.
struct MotionWish {
  std::string vm;
  std::string to;
  std::string monitor;  // path of its QEMU's QMP socket; empty: where vmm/vm_monitors.h has it
  Duration max_pause = std::chrono::milliseconds(500);
  Duration patience = std::chrono::minutes(10);  // for a QEMU there, and for the memory to be nearly there
  Leader leader = Leader::kDaemons;
};

// What a motion moved, and how long its parts took.
struct MotionReport {
  std::uint64_t ram_bytes = 0;
  std::uint64_t page_bytes = 0;  // that the adapter had written
  std::uint64_t state_bytes = 0;
  Duration took{};
  Duration pause{};  // the VM stood, from QEMU's stop here to its start there
  // Of it.
  Duration freeze{};  // stop of the adapter
  Duration pages{};   // shown to QEMU
  Duration state{};   // saved and sent
  Duration memory{};  // QEMU's rest; meanwhile the state goes there and is loaded
  Duration commit{};
  Duration go_on{};        // there
  std::string left_to_do;  // by hand, with a sentence; empty: nothing
  bool is_lost = false;    // it is there without its connections, as that says
};

// A motion that runs, or that ended on this host since the daemon began. Its report is complete when it is
// done.
struct MotionState : Motion, MotionReport {
  std::string state;  // "runs", "done", "failed"
  std::string phase;  // of one that runs
  std::string error;  // of one that failed: one sentence
  std::string since;  // when it began, UTC
  std::uint64_t remaining_bytes = 0;
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

class MotionService {
 public:
  virtual ~MotionService() = default;

  // Begins a motion and returns. Errors: one sentence; ENOENT: no such VM; EBUSY: it is on its way, or too
  // many are; otherwise what forbids it.
  virtual Result<MotionState> start(const MotionWish& wish) = 0;
  // What can be found out without moving anything, from both hosts. Blocks for some seconds at most.
  virtual Result<void> check(const MotionWish& wish) = 0;
  // The motions of this host: the newest of each VM, by VM.
  virtual std::vector<MotionState> list() = 0;
  virtual MotionCounters counters() = 0;
  // Gives a motion up, unless it is too late. Errors: ENOENT: none runs; EBUSY: the VM may be there already.
  virtual Result<void> cancel(const std::string& vm) = 0;
};

}  // namespace pvrdma::motion
