// Destination: the end of a motion (source.h) on the host that the VM comes to. A QEMU was started there to
// wait for it.
//
// The VM runs here only when the arbiter says that it is here, whatever the other host says.
//
// The steps are the same for both leaders of the QEMUs. daemon_led_destination.h and
// libvirt_led_destination.h have the differences.
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
  pid_t pid = 0;  // of the QEMU on this host
  Duration load{};
  Duration go_on{};
};

class Destination {
 public:
  // Returns the other host's second connection; waits for it until `until`.
  using TakeMemory = std::function<Result<std::unique_ptr<ByteChannel>>(Instant until)>;
  using Stopping = std::function<bool()>;
  // Returns the path of the waiting QEMU's monitor.
  using FindMonitor = std::function<Result<std::string>()>;

  // `side`, `arbiter` and `there` are borrowed.
  static std::unique_ptr<Destination> create(Offer offer, FindMonitor find_monitor, AdapterSide& side,
                                             Arbiter& arbiter, calls::Conversation& there,
                                             TakeMemory take_memory, Stopping stopping);
  virtual ~Destination() = default;
  Destination(const Destination&) = delete;
  Destination& operator=(const Destination&) = delete;

  // Call it once, after the offer was accepted. The error is a sentence. ECANCELED: the VM stays where it is.
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

  // --- What depends on the leader, in the order of the motion ---

  // Checks that this QEMU waits for the VM.
  virtual Result<void> check_waits(const Qemu& qemu) = 0;
  // Prepares QEMU and tells the other host that its QEMU may send.
  virtual Result<void> prepare() = 0;
  // QEMU and the adapter have the VM. Tells the other host so when nothing is missing.
  virtual Result<void> complete() = 0;
  // Called while the arbiter has not decided. Returns true if this host is to tell the arbiter that the VM is
  // here. `is_alone`: the other host will not tell it any more.
  virtual Result<bool> may_commit(bool is_alone) = 0;
  // Why this host told the arbiter, as a text for the log.
  virtual std::string_view reason_to_commit() const = 0;
  // Called when this daemon ends while the VM may be here. Success: it is here.
  virtual Result<void> stop_deciding() = 0;
  // Called when the VM runs here.
  virtual void tidy_qemu() = 0;
  // Called when the VM did not come because of `why`, and the other host knows that.
  virtual Result<ArrivalReport> give_up(Error why) = 0;

  // --- What both leaders need ---

  // Receives the VM's PCI state. Returns the draft of its adapter, which is empty if an older daemon sends
  // none.
  Result<std::vector<std::byte>> receive_pci_image();
  // Checks whether the adapter here can load such a state.
  Result<void> try_draft(std::vector<std::byte> draft);
  Result<void> restore_pci();
  // QEMU has the VM. Restores the PCI state if QEMU does not have the newest.
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
  bool is_paused_;          // the VM is paused, and stays so
  bool is_here_ = false;    // the VM is here, as the arbiter says
  bool is_loaded_ = false;  // the adapter has the state

 private:
  Result<void> steps();
  Result<void> wait_for_qemu();
  Result<void> look_for_qemu();
  Result<void> load();
  Result<void> wait_for_memory();
  Result<void> restore_newest_pci();
  Result<void> decide();
  Result<void> go_on();

  std::optional<vmm::PciImage> restored_;  // the PCI state that QEMU has
  std::optional<Instant> has_come_;        // when QEMU connected to the adapter
};

}  // namespace pvrdma::motion
