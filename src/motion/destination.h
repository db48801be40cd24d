// Destination: a VM comes from another host (source.h), to a QEMU that was started to wait for it.
//
// It goes on here when the arbiter says that it is here, and not before, whatever the other host says.
//
// The steps are the same whoever leads the two QEMUs; what differs is in daemon_led_destination.h and
// libvirt_led_destination.h.
//
// Thread: one, which may block.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "base/byte_channel.h"
#include "base/log.h"
#include "base/result.h"
#include "base/time.h"
#include "calls/conversation.h"
#include "motion/adapter_side.h"
#include "motion/arbiter.h"
#include "motion/messages.h"
#include "motion/qemu.h"
#include "vmm/monitor.h"
#include "vmm/pci.h"

namespace pvrdma::motion {

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
  static std::unique_ptr<Destination> create(Offer offer, FindMonitor find_monitor, AdapterSide& side,
                                             Arbiter& arbiter, calls::Conversation& there,
                                             TakeMemory take_memory, Stopping stopping);
  virtual ~Destination() = default;
  Destination(const Destination&) = delete;
  Destination& operator=(const Destination&) = delete;

  // Once, after the offer was accepted. The error is a sentence; ECANCELED: the VM stays where it is.
  Result<ArrivalReport> run();

 protected:
  Destination(Offer offer, FindMonitor find_monitor, AdapterSide& side, Arbiter& arbiter,
              calls::Conversation& there, Stopping stopping)
      : offer_(std::move(offer)),
        find_monitor_(std::move(find_monitor)),
        side_(side),
        arbiter_(arbiter),
        there_(there),
        stopping_(std::move(stopping)),
        is_paused_(offer_.is_paused) {}

  // --- What depends on who leads, in the order of the motion ---

  // Whether that QEMU waits for the VM.
  virtual Result<void> check_waits(const Qemu& qemu) = 0;
  // The other host is told that its QEMU may send.
  virtual Result<void> prepare() = 0;
  // QEMU and the adapter have the VM: the other host is told so when nothing is missing.
  virtual Result<void> complete() = 0;
  // The arbiter has not decided. Whether it is to be told that the VM is here. `is_alone`: the other host
  // will not tell it any more.
  virtual Result<bool> may_commit(bool is_alone) = 0;
  // Why this host told the arbiter, for the log.
  virtual std::string_view reason_to_commit() const = 0;
  // This daemon ends, and the VM may be here. Success: it is.
  virtual Result<void> stop_deciding() = 0;
  // The VM runs here.
  virtual void tidy_qemu() = 0;
  // `why`: it did not come, and the other host knows.
  virtual Result<ArrivalReport> give_up(Error why) = 0;

  // --- What both leaders need ---

  // The PCI state of the VM, and the draft of its adapter; empty: an older daemon sends none.
  Result<std::vector<std::byte>> receive_pci_image();
  // Finds out whether the adapter here can go on from such a state.
  Result<void> try_draft(std::vector<std::byte> draft);
  Result<void> restore_pci();
  Result<void> say_loaded();

  const Offer offer_;
  const FindMonitor find_monitor_;
  AdapterSide& side_;
  Arbiter& arbiter_;
  calls::Conversation& there_;
  const Stopping stopping_;
  std::unique_ptr<vmm::Monitor> monitor_;
  vmm::PciPlace place_;
  vmm::PciImage image_;
  ArrivalReport report_;
  log::LogLimiter waiting_log_{1, std::chrono::seconds(10)};
  bool is_paused_;          // the VM, and is to stay so
  bool is_here_ = false;    // the VM, as the arbiter says
  bool is_loaded_ = false;  // the adapter

 private:
  Result<void> steps();
  Result<void> wait_for_qemu();
  Result<void> look_for_qemu();
  Result<void> load();
  Result<void> wait_for_memory();
  Result<void> decide();
  Result<void> go_on();

  std::optional<Instant> has_come_;  // QEMU, to the adapter
};

}  // namespace pvrdma::motion
