// Source: a running VM leaves this host for another one, with its connections (vMotion, ADR 19).
//
// QEMU moves memory and CPUs while the VM runs, stops it and waits. The adapter is stopped then, the pages it
// has written are shown to QEMU, and its state goes to the other daemon. When everything is there, the
// arbiter is told that the VM is, and that alone makes it so. Until the state is on its way a failure lets
// the VM go on here at once; after that only when the arbiter has it in writing that it stays.
//
// Where libvirt leads the QEMUs, it is followed (source_led.cc, ADR 21): it does not wait for anybody, so the
// adapter is stopped when the VM is found standing, and the pages it has written go to the other daemon. The
// VM is the other host's when libvirt has ended its QEMU here, and goes on here when libvirt lets it.
//
// Thread: one, which may block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>

#include "base/byte_channel.h"
#include "base/log.h"
#include "base/result.h"
#include "base/time.h"
#include "calls/conversation.h"
#include "motion/arbiter.h"
#include "motion/messages.h"
#include "motion/moving_side.h"
#include "motion/pump.h"
#include "vmm/migration.h"
#include "vmm/monitor.h"

namespace pvrdma::motion {

struct MotionWish {
  Motion motion;
  std::string monitor;  // of the VM's QEMU
  Duration max_pause{};
  Duration patience{};  // for a QEMU on the other host, and for the memory to be nearly there
  Leader leader = Leader::kDaemons;
};

// How far it is.
struct MotionProgress {
  std::string_view phase;  // "waits for QEMU", "memory", "pause", "commit"; "waits for libvirt", "stands",
                           // "lost": it decides
  std::uint64_t ram_bytes = 0;
  std::uint64_t remaining_bytes = 0;
};

struct MotionReport {
  std::uint64_t ram_bytes = 0;
  std::uint64_t page_bytes = 0;  // that the adapter had written
  std::uint64_t state_bytes = 0;
  Duration took{};
  Duration pause{};  // the VM stood, from QEMU's stop here to its start there
  // Of it.
  Duration freeze{};  // stop of the adapter
  Duration pages{};   // shown to QEMU
  Duration state{};   // saved and sent
  Duration memory{};  // QEMU's rest, with the state's way and its loading there meanwhile
  Duration commit{};
  Duration go_on{};        // there
  std::string left_to_do;  // by hand, with a sentence; empty: nothing
  bool is_lost = false;    // it is there without its connections, as that says
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
  Source(MotionWish wish, MovingSide& side, Arbiter& arbiter, calls::Conversation& there,
         OpenMemory open_memory, Stopping stopping)
      : wish_(std::move(wish)),
        side_(side),
        arbiter_(arbiter),
        there_(there),
        open_memory_(std::move(open_memory)),
        stopping_(std::move(stopping)) {}

  // Once. The error is a sentence that says what failed, and the VM is here; ECANCELED: `progress` gave up.
  Result<MotionReport> run(const Progress& progress);
  // Instead of run(): what can be found out without changing anything.
  Result<void> check();

 private:
  Result<void> open();
  void note_run_state(const std::string& state);
  enum class Asked : bool { kToGo, kWhether };
  Result<void> offer(Asked asked);
  Result<void> begin();
  Result<void> prepare(const Progress& progress);
  Result<void> copy_memory(const Progress& progress);
  Result<void> stop(const Progress& progress);
  Result<void> hand_over(const Progress& progress);
  Result<void> commit(const Progress& progress);
  std::string leave();
  void stop_what_runs_here();
  Result<void> wait_for(const char* what, Duration patience, const Progress& progress,
                        const MotionProgress& state);
  Result<void> set_up_qemu();
  Result<void> allow_downtime(Duration downtime);
  Error undo(Error why, const Progress& progress);
  Result<void> undo_all(const std::string& why);
  Result<void> check_pages_fit(std::uint64_t bytes, std::uint64_t bytes_per_s) const;

  // Where libvirt leads: source_led.cc.
  bool is_led() const { return wish_.leader == Leader::kLibvirt; }
  struct Look;
  Result<Look> look();
  Result<void> check_monitor_name();
  Result<void> begin_led();
  void refresh_image();
  Result<void> follow_memory(const Progress& progress);
  Result<void> check_stands();
  Result<void> wait_led(const char* what, const Progress& progress);
  Result<void> hand_over_led(const Progress& progress);
  Result<void> wait_until_qemu_has_gone(const Progress& progress);
  void say_what_is_waited_for(const Result<Look>& found, const std::string& why);
  Result<void> undo_all_led(const std::string& why, const Progress& progress);
  Result<void> learn_where_it_is(const Progress& progress);

  Result<void> end_in_writing();
  Result<void> check_given_away(Instant until);
  Result<void> check_untouched(const std::string& run_state) const;
  Result<void> take_qemu_back();
  bool may_ask_again(const Error& why);
  MotionProgress in_pause() const;

  const MotionWish wish_;
  MovingSide& side_;
  Arbiter& arbiter_;
  calls::Conversation& there_;
  const OpenMemory open_memory_;
  const Stopping stopping_;
  std::unique_ptr<vmm::Monitor> monitor_;
  std::unique_ptr<Pump> pump_;
  MotionReport report_;
  pid_t pid_ = 0;
  vmm::PciImage image_;          // the newest
  vmm::MigrationSettings kept_;  // QEMU's, from before
  std::set<std::string> kept_capabilities_;
  log::LogLimiter waiting_log_{1, std::chrono::seconds(10)};
  Duration downtime_{};            // that QEMU may take
  std::uint64_t bytes_per_s_ = 0;  // of its stream
  Instant began_{};
  Instant stood_{};
  bool is_paused_ = false;      // its VM, when it was seen last, and so it stays
  bool takes_draft_ = false;    // the other host: older daemons do not
  bool begun_ = false;          // the motion is in the store
  bool logs_ = false;           // pages
  bool set_up_ = false;         // QEMU's settings, and perhaps its migration
  bool stopped_ = false;        // the adapter
  bool state_sent_ = false;     // the other host may be ready from now on
  bool over_ = false;           // the VM is there
  bool qemu_gave_all_ = false;  // when it was seen last
  bool qemu_is_gone_ = false;
  bool is_loaded_ = false;  // there, with all that the adapter has written
  std::string lost_;        // it is there without its connections: why
};

}  // namespace pvrdma::motion
