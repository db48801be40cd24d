// Source: a running VM leaves this host for another one, with its connections (vMotion, ADR 19).
//
// QEMU moves memory and CPUs while the VM runs, stops it and waits. The adapter is stopped then, the pages it
// has written are shown to QEMU, and its state goes to the other daemon. When everything is there, the
// arbiter is told that the VM is, and that alone makes it so. Until the state is on its way a failure lets
// the VM go on here at once; after that only when the arbiter has it in writing that it stays.
//
// The steps are the same whoever leads the two QEMUs; what differs is in daemon_led_source.h and
// libvirt_led_source.h.
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

// How far it is.
struct MotionProgress {
  std::string_view phase;  // "waits for QEMU", "memory", "pause", "commit";
                           // "waits for libvirt", "stands", "lost": it decides
  std::uint64_t ram_bytes = 0;
  std::uint64_t remaining_bytes = 0;
};

class Source {
 public:
  // False: give up. Ignored when it is too late.
  using Progress = std::function<bool(const MotionProgress& progress)>;
  using OpenMemory = std::function<Result<std::unique_ptr<ByteChannel>>()>;
  // The daemon ends: nothing is waited for any more.
  using Stopping = std::function<bool()>;

  // `side`, `arbiter` and `there` are borrowed. `open_memory`: a second connection to the other host, for
  // QEMU's stream.
  static std::unique_ptr<Source> create(Motion motion, MotionWish wish, AdapterSide& side, Arbiter& arbiter,
                                        calls::Conversation& there, OpenMemory open_memory,
                                        Stopping stopping);
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // Once. The error is a sentence that says what failed, and the VM is here; ECANCELED: `progress` gave up.
  Result<MotionReport> run(const Progress& progress);
  // Instead of run(): what can be found out without changing anything.
  Result<void> check();

 protected:
  class Stopwatch {
   public:
    // Since the last one.
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

  // --- What depends on who leads, in the order of the motion ---

  // Whether the VM's QEMU, which `monitor_` has reached, can be moved.
  virtual Result<void> check_qemu() = 0;
  // Before the store has the motion.
  virtual Result<void> before_begin() = 0;
  // While the other host is waited for.
  virtual Result<void> check_qemu_lives() = 0;
  // The error where no QEMU waited on the other host in time.
  virtual Failure no_qemu_there() const = 0;
  // Until the VM does not run any more.
  virtual Result<void> copy_memory(const Progress& progress) = 0;
  // The adapter is stopped, and has logged so many bytes of pages: brings `image_` up to date, and QEMU's
  // memory if that is due now.
  virtual Result<void> catch_up(std::uint64_t logged_bytes, Stopwatch& watch) = 0;
  // Until the other host has everything.
  virtual Result<void> hand_over(const Progress& progress) = 0;
  // While the store does not say where the VM is: whether its QEMU is still as hand_over() left it.
  virtual Result<void> check_untouched() = 0;
  // The VM is on the other host. Returns what is left to be done by hand, a sentence.
  virtual std::string leave() = 0;
  // The VM stays, unless `is_there_` is true at the end.
  virtual Result<void> undo(const std::string& why, const Progress& progress) = 0;

  // --- What both leaders need ---

  void note_run_state(const std::string& state);
  Result<void> check_pages_fit(std::uint64_t bytes, std::uint64_t bytes_per_s) const;
  MotionProgress in_pause() const;
  Result<void> wait_for(const char* what, Duration patience, const Progress& progress,
                        const MotionProgress& state);
  Result<void> begin_log();
  // `since`: the store has it since then.
  Result<calls::Said> hear_that_it_runs(Instant since);
  // The store has it that the VM stays. EALREADY: it is on the other host, and is_there_ is true.
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
  vmm::PciImage image_;  // the newest
  log::LogLimiter waiting_log_{1, std::chrono::seconds(10)};
  Instant stood_{};          // the VM ran until then
  bool is_paused_ = false;   // by its operator, when it was seen last: it stays so
  bool begun_ = false;       // the motion is in the store
  bool logs_ = false;        // pages
  bool stopped_ = false;     // the adapter
  bool state_sent_ = false;  // the other host may be ready from now on
  bool is_there_ = false;    // the VM

 private:
  Result<void> steps(const Progress& progress);
  Result<void> open();
  enum class Asked : bool { kToGo, kWhether };
  Result<void> offer(Asked asked);
  Result<void> begin();
  Result<void> prepare(const Progress& progress);
  Result<void> stop(const Progress& progress);
  Result<void> commit(const Progress& progress);
  bool may_ask_again(const Error& why);
  Error undone(Error why, const Progress& progress);

  bool takes_draft_ = false;  // the other host: older daemons do not
};

}  // namespace pvrdma::motion
