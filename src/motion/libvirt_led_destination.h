// LibvirtLedDestination: the arriving end of a motion in which libvirt leads the QEMUs (ADR 21).
//
// libvirt leaves the VM paused here. libvirt does not take a VM back. So if the adapter's state does not
// come, the arbiter is still told that the VM is here, as soon as it runs.
//
// Thread: as Destination.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "motion/destination.h"

namespace pvrdma::motion {

// What QEMU says about a VM that libvirt has moved to this host.
enum class LedVm : std::uint8_t { kWaits, kStands, kRuns, kGone, kUnknown };
// `monitor` is null if QEMU was never reached.
LedVm look_at(vmm::Monitor* monitor, AdapterSide& side, const std::string& vm);

class LibvirtLedDestination final : public Destination {
 public:
  LibvirtLedDestination(Offer offer, FindMonitor find_monitor, AdapterSide& side, Arbiter& arbiter,
                        calls::Conversation& there, Stopping stopping)
      : Destination(std::move(offer), std::move(find_monitor), side, arbiter, there, std::move(stopping)) {}

 private:
  Result<void> check_waits(const Qemu& qemu) override;
  Result<void> prepare() override;
  Result<void> complete() override;
  Result<bool> may_commit(bool is_alone) override;
  std::string_view reason_to_commit() const override {
    return "has not completed the motion, and libvirt lets the VM run";
  }
  Result<void> stop_deciding() override;
  void tidy_qemu() override {}
  Result<ArrivalReport> give_up(Error why) override;

  Result<void> take_pages();
  LedVm look();
  Result<void> check_stands(bool has_pages);
  void stop_incoming();
  Result<void> begin_anew();

  Instant look_at_{};  // while the arbiter decides: when to look at the VM next
};

}  // namespace pvrdma::motion
