// Motions: VMs that leave this host, VMs that come to it, and the records of these motions in the store.
//
// Thread: any but the shard's.
#pragma once

#include <map>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "base/time.h"
#include "calls/host_calls.h"
#include "calls/incoming_calls.h"
#include "control/plane/plane.h"
#include "motion/adapter_side.h"
#include "motion/motion_service.h"
#include "moves/arrivals.h"
#include "moves/departures.h"
#include "moves/store_arbiter.h"

namespace pvrdma::moves {

class Motions final : public motion::MotionService {
 public:
  // For this long after the start, the other host decides about a motion that this daemon's previous process
  // led.
  static constexpr Duration kFirstLook = std::chrono::seconds(10);

  // All are borrowed except `find_monitor`. `incoming` delivers calls until it is stopped, which must happen
  // before this object is destroyed.
  Motions(control::Plane& plane, motion::AdapterSide& side, const calls::HostCalls& outgoing,
          calls::IncomingCalls& incoming, FindMonitor find_monitor, Duration first_look = kFirstLook);
  ~Motions() override;
  Motions(const Motions&) = delete;
  Motions& operator=(const Motions&) = delete;

  Result<motion::MotionState> start(const motion::MotionWish& wish) override {
    return departures_.start(wish);
  }
  Result<void> check(const motion::MotionWish& wish) override { return departures_.check(wish); }
  std::vector<motion::MotionState> list() override { return departures_.list(); }
  Result<void> cancel(const std::string& vm) override;
  motion::MotionCounters counters() override;

  // Asks the motions of leaving VMs to end, as far as they can. A VM that may be on the other host stays
  // paused. No further motion starts.
  void interrupt();
  // Like interrupt(), and waits until they have ended, for a bounded time.
  void stop();

 private:
  // To libvirt's operator, who decides about a VM.
  struct Reminder {
    std::string motion;
    log::LogLimiter log{1, std::chrono::seconds(10)};
  };

  void watch_records(const std::stop_token& stop, Duration first_look);
  void look_after_records(const std::stop_token& stop);
  bool is_open(const motion::Motion& motion);
  void follow_libvirt(const motion::Motion& motion);
  void remind(const motion::Motion& motion);
  void continue_vm(const std::string& vm);

  control::Plane& plane_;
  motion::AdapterSide& side_;
  const FindMonitor find_monitor_;
  StoreArbiter arbiter_;
  Departures departures_;
  Arrivals arrivals_;
  std::map<std::string, Reminder> reminders_;  // by VM; only for the watcher's thread
  std::jthread watcher_;                       // runs watch_records()
};

}  // namespace pvrdma::moves
