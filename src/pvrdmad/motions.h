// Motions: the VMs that leave this host and those that come to it, and their records in the store.
//
// Thread: any but the shard's; take_call() the shard's.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "control/adapter_control.h"
#include "control/plane/plane.h"
#include "motion/moving_side.h"
#include "pvrdmad/arrivals.h"
#include "pvrdmad/departures.h"
#include "pvrdmad/host_calls.h"
#include "pvrdmad/store_arbiter.h"
#include "transport/tcp/call.h"

namespace pvrdma::daemon {

class Motions {
 public:
  static constexpr std::size_t kCallsWaitingMax = 8;
  // A motion that this daemon's last process led is its other host's to decide, for so long.
  static constexpr Duration kFirstLook = std::chrono::seconds(10);

  // `plane` and `side` are borrowed.
  Motions(control::Plane& plane, motion::MovingSide& side, HostCalls calls, FindMonitor find_monitor,
          Duration first_look = kFirstLook, AnswerOther answer_other = nullptr);
  ~Motions();
  Motions(const Motions&) = delete;
  Motions& operator=(const Motions&) = delete;

  // As control::AdapterControl's.
  Result<control::MotionState> start(const control::MotionWish& wish) { return departures_.start(wish); }
  Result<void> check(const control::MotionWish& wish) { return departures_.check(wish); }
  std::vector<control::MotionState> list() { return departures_.list(); }
  Result<void> cancel(const std::string& vm);
  control::MotionCounters counters();

  // Another host's. Dropped when there are too many.
  void take_call(std::unique_ptr<transport::tcp::Stream> stream, std::string peer);

  // Ends what is under way, as far as it can be: a VM that may be elsewhere stands. Blocks for a bounded
  // time; what comes later is refused. Once.
  void stop();

 private:
  void attend();
  void watch_records(Duration first_look);
  bool stops_within(Duration pause);
  std::unique_ptr<transport::tcp::Call> next_call();
  void look_after_records();
  bool is_open(const motion::Motion& motion);
  void follow_libvirt(const motion::Motion& motion);
  void continue_vm(const std::string& vm);

  control::Plane& plane_;
  motion::MovingSide& side_;
  const HostCalls calls_to_;
  const FindMonitor find_monitor_;
  const AnswerOther answer_other_;
  StoreArbiter arbiter_;
  Departures departures_;
  Arrivals arrivals_;
  log::LogLimiter waiting_log_{1, std::chrono::seconds(10)};

  // What the shard gives. Its own lock, under which nothing is allocated or waited for.
  std::mutex calls_mutex_;
  std::condition_variable call_came_;
  std::array<std::unique_ptr<transport::tcp::Call>, kCallsWaitingMax> calls_;  // guarded, as the next
  bool takes_calls_ = true;
  std::condition_variable stops_;  // takes none any more

  std::thread clerk_;    // hands calls on
  std::thread watcher_;  // looks after records
};

}  // namespace pvrdma::daemon
