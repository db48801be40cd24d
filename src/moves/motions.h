// Motions: the VMs that leave this host and those that come to it, and their records in the store.
//
// Thread: any but the shard's.
#pragma once

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
  // A motion that this daemon's last process led is its other host's to decide, for so long.
  static constexpr Duration kFirstLook = std::chrono::seconds(10);

  // All borrowed but `find_monitor`. `incoming` brings calls until it was stopped, which is before the end of
  // this.
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

  // Asks the motions of VMs that leave to end, as far as they can: a VM that may be elsewhere stands. No
  // other one begins.
  void interrupt();
  // The same, and waits for a bounded time until they have ended.
  void stop();

 private:
  void watch_records(const std::stop_token& stop, Duration first_look);
  void look_after_records(const std::stop_token& stop);
  bool is_open(const motion::Motion& motion);
  void follow_libvirt(const motion::Motion& motion);
  void continue_vm(const std::string& vm);

  control::Plane& plane_;
  motion::AdapterSide& side_;
  const FindMonitor find_monitor_;
  StoreArbiter arbiter_;
  Departures departures_;
  Arrivals arrivals_;
  log::LogLimiter waiting_log_{1, std::chrono::seconds(10)};
  std::jthread watcher_;  // looks after records
};

}  // namespace pvrdma::moves
