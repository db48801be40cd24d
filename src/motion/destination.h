// Destination: a VM comes from another host (source.h), to a QEMU that was started to wait for it.
//
// It goes on here when the arbiter says that it is here, and not before, whatever the other host says.
//
// Where libvirt leads the QEMUs (destination_led.cc, ADR 21), it has the VM come, and stand here. What it has
// brought it does not take back: should the adapter's state not come with it, the arbiter is told all the
// same that the VM is here, when it runs.
//
// Thread: one, which may block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>

#include "base/byte_channel.h"
#include "base/result.h"
#include "base/time.h"
#include "calls/conversation.h"
#include "motion/arbiter.h"
#include "motion/messages.h"
#include "motion/moving_side.h"
#include "motion/pump.h"
#include "vmm/monitor.h"
#include "vmm/pci.h"

namespace pvrdma::motion {

// A VM that libvirt has come here, as its QEMU here says.
enum class LedVm : std::uint8_t { kWaits, kStands, kRuns, kGone, kUnknown };
// `monitor` null: it is not reached.
LedVm look_at(vmm::Monitor* monitor, MovingSide& side, const std::string& vm);

struct ArrivalReport {
  pid_t pid = 0;  // of the QEMU here
  Duration load{};
  Duration go_on{};
};

class Destination {
 public:
  // The other host's second connection; waits for it until then.
  using TakeMemory = std::function<Result<std::unique_ptr<ByteChannel>>(Instant until)>;
  using Stopping = std::function<bool()>;

  // Where the QEMU that waits has its monitor.
  using FindMonitor = std::function<Result<std::string>()>;

  // `side`, `arbiter` and `there` are borrowed.
  Destination(Offer offer, FindMonitor find_monitor, MovingSide& side, Arbiter& arbiter,
              calls::Conversation& there, TakeMemory take_memory, Stopping stopping)
      : offer_(std::move(offer)),
        find_monitor_(std::move(find_monitor)),
        side_(side),
        arbiter_(arbiter),
        there_(there),
        take_memory_(std::move(take_memory)),
        stopping_(std::move(stopping)),
        is_paused_(offer_.is_paused) {}

  // Once, after the offer was accepted. The error is a sentence; ECANCELED: the VM stays where it is.
  Result<ArrivalReport> run();

 private:
  Result<void> wait_for_qemu();
  Result<void> look_for_qemu();
  Result<void> receive_memory();
  Result<void> load();
  Result<void> wait_for_memory();
  Result<void> decide();
  Result<void> stop_deciding();
  Result<void> go_on();
  Result<void> restore();
  Result<void> prepare();

  // Where libvirt leads.
  bool is_led() const { return offer_.leader == Leader::kLibvirt; }
  Result<void> prepare_led();
  Result<void> take_pages();
  LedVm look();
  Result<void> check_stands(bool has_pages);
  void stop_incoming();
  Result<ArrivalReport> give_up_led(Error why);
  Result<void> begin_anew();

  const Offer offer_;
  const FindMonitor find_monitor_;
  MovingSide& side_;
  Arbiter& arbiter_;
  calls::Conversation& there_;
  const TakeMemory take_memory_;
  const Stopping stopping_;
  std::unique_ptr<vmm::Monitor> monitor_;
  std::unique_ptr<Pump> pump_;
  vmm::PciPlace place_;
  vmm::PciImage image_;
  ArrivalReport report_;
  std::optional<Instant> has_come_;
  bool is_paused_;          // the VM, and is to stay so
  bool took_qemu_ = false;  // it is of no other use any more
  bool is_here_ = false;    // the VM, as the arbiter says
  bool is_loaded_ = false;  // the adapter
};

}  // namespace pvrdma::motion
