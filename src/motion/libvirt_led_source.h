// LibvirtLedSource: the leaving end of a motion in which libvirt leads the QEMUs (ADR 21).
//
// libvirt does not wait for the daemons. So the daemon stops the adapter when it finds the VM paused, and
// sends the pages that the adapter has written to the other daemon. The VM belongs to the other host when
// libvirt has ended its QEMU here. It runs here again if libvirt lets it.
//
// Thread: as Source.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "motion/source.h"
#include "vmm/migration.h"

namespace pvrdma::motion {

class LibvirtLedSource final : public Source {
 public:
  LibvirtLedSource(Motion motion, MotionWish wish, AdapterSide& side, Arbiter& arbiter,
                   calls::Conversation& there, Stopping stopping)
      : Source(std::move(motion), std::move(wish), side, arbiter, there, std::move(stopping)) {}

 private:
  Result<void> check_qemu() override;
  Result<void> before_begin() override;
  Result<void> check_qemu_lives() override;
  Failure no_qemu_there() const override;
  Result<void> copy_memory(const Progress& progress) override;
  Result<void> catch_up(std::uint64_t logged_bytes, Stopwatch& watch) override;
  Result<void> hand_over(const Progress& progress) override;
  Result<void> check_untouched() override { return {}; }
  std::string leave() override;
  Result<void> undo(const std::string& why, const Progress& progress) override;

  // The state of the VM as its QEMU reports it.
  struct Look {
    enum class Vm : std::uint8_t { kRuns, kStands, kGone } vm = Vm::kStands;
    vmm::MigrationStatus migration;
  };
  Result<Look> look();
  void refresh_image();
  Result<void> check_stands();
  Result<void> wait_in_pause(const char* what, const Progress& progress);
  Result<void> wait_until_qemu_has_gone(const Progress& progress);
  void say_what_is_waited_for(const Result<Look>& found, const std::string& why);
  Result<void> learn_where_it_is(const Progress& progress);

  bool qemu_gave_all_ = false;  // as seen at the last look()
  bool qemu_is_gone_ = false;
  std::string lost_;  // why the VM is there without its connections; empty: it has them
};

}  // namespace pvrdma::motion
