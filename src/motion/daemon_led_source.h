// DaemonLedSource: the leaving end of a motion in which the daemons lead the QEMUs (ADR 19).
//
// QEMU copies the memory while the VM runs, stops the VM when little is left, and waits. Then QEMU is told
// which pages the adapter has written, and QEMU gives the VM away.
//
// Thread: as Source.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "motion/pump.h"
#include "motion/source.h"
#include "vmm/migration.h"

namespace pvrdma::motion {

class DaemonLedSource final : public Source {
 public:
  DaemonLedSource(Motion motion, MotionWish wish, AdapterSide& side, Arbiter& arbiter,
                  calls::Conversation& there, OpenMemory open_memory, Stopping stopping)
      : Source(std::move(motion), std::move(wish), side, arbiter, there, std::move(stopping)),
        open_memory_(std::move(open_memory)) {}

 private:
  Result<void> check_qemu() override;
  Result<void> before_begin() override { return {}; }
  Result<void> check_qemu_lives() override { return {}; }
  Failure no_qemu_there() const override;
  Result<void> copy_memory(const Progress& progress) override;
  Result<void> catch_up(std::uint64_t logged_bytes, Stopwatch& watch) override;
  Result<void> hand_over(const Progress& progress) override;
  Result<void> check_untouched() override;
  std::string leave() override;
  Result<void> undo(const std::string& why, const Progress& progress) override;

  Result<void> begin_copying();
  Result<void> set_up_qemu();
  Result<void> allow_downtime(Duration downtime);
  Result<void> check_given_away(Instant until);
  Result<void> check_given_away(const std::string& run_state) const;
  void stop_what_runs_here();
  Result<void> take_qemu_back();

  const OpenMemory open_memory_;
  std::unique_ptr<Pump> pump_;
  vmm::MigrationSettings kept_;  // QEMU's settings from before
  std::set<std::string> kept_capabilities_;
  Duration downtime_{};            // the downtime that QEMU may take
  std::uint64_t bytes_per_s_ = 0;  // the speed of QEMU's stream
  bool set_up_ = false;            // QEMU's settings were changed, and its migration may have started
};

}  // namespace pvrdma::motion
