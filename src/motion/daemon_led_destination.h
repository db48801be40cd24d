// DaemonLedDestination: the arriving end of a motion in which the daemons lead the QEMUs (ADR 19).
//
// The VM's memory comes through a second call of the other host. A failure ends the QEMU that waited for the
// VM.
//
// Thread: as Destination.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "motion/destination.h"
#include "motion/pump.h"

namespace pvrdma::motion {

class DaemonLedDestination final : public Destination {
 public:
  DaemonLedDestination(Offer offer, FindMonitor find_monitor, AdapterSide& side, Arbiter& arbiter,
                       calls::Conversation& there, TakeMemory take_memory, Stopping stopping)
      : Destination(std::move(offer), std::move(find_monitor), side, arbiter, there, std::move(stopping)),
        take_memory_(std::move(take_memory)) {}

 private:
  Result<void> check_waits(const Qemu& qemu) override;
  Result<void> prepare() override;
  Result<void> complete() override { return say_loaded(); }
  Result<bool> may_commit(bool is_alone) override { return is_alone; }
  std::string_view reason_to_commit() const override { return "has died"; }
  Result<void> stop_deciding() override;
  void tidy_qemu() override;
  Result<ArrivalReport> give_up(Error why) override;

  const TakeMemory take_memory_;
  std::unique_ptr<Pump> pump_;
  bool took_qemu_ = false;  // the QEMU has been changed and cannot be used for anything else
};

}  // namespace pvrdma::motion
