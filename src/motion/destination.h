// Destination: a VM comes from another host (source.h), to a QEMU that was started to wait for it.
//
// It goes on here when the arbiter says that it is here, and not before, whatever the other host says.
//
// Thread: one, which may block.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <sys/types.h>
#include <utility>

#include "base/byte_channel.h"
#include "base/result.h"
#include "base/time.h"
#include "motion/arbiter.h"
#include "motion/conversation.h"
#include "motion/moving_side.h"
#include "motion/pump.h"
#include "vmm/monitor.h"
#include "vmm/pci.h"

namespace pvrdma::motion {

// What the other host offers. Errors: EPROTO: it is no offer; EPERM: one that this daemon cannot take.
struct Offer {
  Motion motion;
  Duration patience{};
  bool is_question = false;  // whether it would be accepted; nothing follows
};
Result<Offer> read_offer(const Said& said);

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
  Destination(Offer offer, FindMonitor find_monitor, MovingSide& side, Arbiter& arbiter, Conversation& there,
              TakeMemory take_memory, Stopping stopping)
      : offer_(std::move(offer)),
        find_monitor_(std::move(find_monitor)),
        side_(side),
        arbiter_(arbiter),
        there_(there),
        take_memory_(std::move(take_memory)),
        stopping_(std::move(stopping)) {}

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

  const Offer offer_;
  const FindMonitor find_monitor_;
  MovingSide& side_;
  Arbiter& arbiter_;
  Conversation& there_;
  const TakeMemory take_memory_;
  const Stopping stopping_;
  std::unique_ptr<vmm::Monitor> monitor_;
  std::unique_ptr<Pump> pump_;
  vmm::PciPlace place_;
  vmm::PciImage image_;
  ArrivalReport report_;
  bool took_qemu_ = false;  // it reads, and can do nothing else any more
  bool is_here_ = false;    // the VM, as the arbiter says
};

}  // namespace pvrdma::motion
