// Source: a running VM leaves this host for another one, with its connections (vMotion, ADR 19).
//
// QEMU copies memory while the VM runs, stops the VM and waits. Then the adapter is stopped, QEMU is told
// which pages the adapter has written, and the adapter's state goes to the other daemon. When everything is
// there, the source tells the arbiter, and only the arbiter's record makes the VM the other host's. Until the
// state is sent, the VM runs here again at once after a failure. Later it runs again only when the arbiter
// has recorded that it stays.
//
// The steps are the same for both leaders of the QEMUs. daemon_led_source.h and libvirt_led_source.h have the
// differences.
//
// Thread: one, which may block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>

#include "base/byte_channel.h"
#include "base/log.h"
#include "base/result.h"
#include "base/time.h"
#include "calls/conversation.h"
#include "motion/adapter_side.h"
#include "motion/arbiter.h"
#include "motion/messages.h"
#include "motion/motion_service.h"
#include "vmm/monitor.h"

namespace pvrdma::motion {

// How far the motion is.
struct MotionProgress {
  std::string_view phase;  // "waits for QEMU", "memory", "pause", "commit"; while libvirt decides: "waits for
                           // libvirt", "stands", "lost"
  std::uint64_t ram_bytes = 0;
  std::uint64_t remaining_bytes = 0;
};

class Source {
 public:
  // Returning false gives up. It is ignored when it is too late.
  using Progress = std::function<bool(const MotionProgress& progress)>;
  using OpenMemory = std::function<Result<std::unique_ptr<ByteChannel>>()>;
  // Returns true when the daemon ends: then nothing is waited for any more.
  using Stopping = std::function<bool()>;

  // `side`, `arbiter` and `there` are borrowed. `open_memory` opens a second connection to the other host,
  // for QEMU's stream.
  static std::unique_ptr<Source> create(Motion motion, MotionWish wish, AdapterSide& side, Arbiter& arbiter,
                                        calls::Conversation& there, OpenMemory open_memory,
                                        Stopping stopping);
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // Call it once. If it fails, the VM is here, and the error text says what failed. ECANCELED: `progress`
  // returned false.
  Result<MotionReport> run(const Progress& progress);
  // Call it instead of run(): checks what can be checked without changing anything.
  Result<void> check();

 protected:
  class Stopwatch {
   public:
    // The time since the previous lap() or the start.
    Duration lap() {
      const Instant now = Instant::now();
      return now - std::exchange(began_, now);
    }

   private:
    Instant began_ = Instant::now();
  };

  Source(Motion motion, MotionWish wish, AdapterSide& side, Arbiter& arbiter, calls::Conversation& there,
         Stopping stopping)
      : motion_(std::move(motion)),
        wish_(std::move(wish)),
        side_(side),
        arbiter_(arbiter),
        there_(there),
        stopping_(std::move(stopping)) {}

  // --- What depends on the leader, in the order of the motion ---

  // Checks that the VM's QEMU, which `monitor_` has reached, can be moved.
  virtual Result<void> check_qemu() = 0;
  // Called before the motion is in the store.
  virtual Result<void> before_begin() = 0;
  // Called while this host waits for the other one.
  virtual Result<void> check_qemu_lives() = 0;
  // The error if no QEMU waited on the other host in time.
  virtual Failure no_qemu_there() const = 0;
  // Returns when the VM does not run any more.
  virtual Result<void> copy_memory(const Progress& progress) = 0;
  // Called when the adapter is stopped; its logged pages have `logged_bytes` in total. Brings `image_` up to
  // date, and also QEMU's memory if that is due now.
  virtual Result<void> catch_up(std::uint64_t logged_bytes, Stopwatch& watch) = 0;
  // Returns when the other host has everything.
  virtual Result<void> hand_over(const Progress& progress) = 0;
  // Called while the store does not say where the VM is. Checks that QEMU is still as hand_over() left it.
  virtual Result<void> check_untouched() = 0;
  // The VM is on the other host. Returns a sentence: what the operator has to do. Empty: nothing.
  virtual std::string leave() = 0;
  // The VM stays here, unless `given_` is kVm at the end.
  virtual Result<void> undo(const std::string& why, const Progress& progress) = 0;

  // --- What both leaders need ---

  void note_run_state(const std::string& state);
  Result<void> check_pages_fit(std::uint64_t bytes, std::uint64_t bytes_per_s) const;
  MotionProgress in_pause() const;
  Result<void> wait_for(const char* what, Duration patience, const Progress& progress,
                        const MotionProgress& state);
  Result<void> begin_log();
  // `since` is when the store recorded the VM on the other host.
  Result<calls::Said> hear_that_it_runs(Instant since);
  // Has the store record that the VM stays. EALREADY: it is on the other host, and given_ is kVm.
  Result<void> end_in_writing();

  const Motion motion_;
  const MotionWish wish_;
  AdapterSide& side_;
  Arbiter& arbiter_;
  calls::Conversation& there_;
  const Stopping stopping_;
  std::unique_ptr<vmm::Monitor> monitor_;
  MotionReport report_;
  pid_t pid_ = 0;
  vmm::PciImage image_;  // the newest PCI state
  log::LogLimiter waiting_log_{1, std::chrono::seconds(10)};
  Instant stood_{};         // when the VM was last seen to run
  bool is_paused_ = false;  // the operator has paused the VM, as last seen; it stays paused

  // What the other host has of the VM.
  enum class Given : std::uint8_t {
    kNothing,
    kState,  // the adapter's state: that host may be ready from now on
    kAll,    // also the memory and the pages that the adapter has written, as that host says
    kVm,     // the VM, as the arbiter says
  };
  Given given_ = Given::kNothing;

  // What undo() takes back.
  bool begun_ = false;    // the motion is in the store
  bool logs_ = false;     // the adapter's written pages are logged
  bool stopped_ = false;  // the adapter is stopped

 private:
  Result<void> steps(const Progress& progress);
  Result<void> open();
  enum class Asked : bool { kToGo, kWhether };
  Result<Acceptance> offer(Asked asked);
  Result<void> begin();
  Result<void> prepare(const Acceptance& acceptance, const Progress& progress);
  Result<void> stop(const Progress& progress);
  Result<void> commit(const Progress& progress);
  bool may_ask_again(const Error& why);
  Error undone(Error why, const Progress& progress);
};

}  // namespace pvrdma::motion
