// Departures: the VMs that leave this host (motion/source.h). A thread leads each of them.
//
// Thread: any but the shard's.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "base/byte_channel.h"
#include "base/job_threads.h"
#include "base/result.h"
#include "calls/host_calls.h"
#include "control/plane/plane.h"
#include "motion/adapter_side.h"
#include "motion/arbiter.h"
#include "motion/motion_service.h"
#include "motion/source.h"
#include "moves/find_monitor.h"

namespace pvrdma::moves {

// The id of a motion that libvirt leads begins with this prefix. So the daemon's next process
// recognises such a motion from its record in the store.
inline constexpr const char* kLedPrefix = "libvirt-";
inline bool is_led_by_libvirt(const std::string& motion) {
  return motion.starts_with(kLedPrefix);
}

class Departures {
 public:
  static constexpr std::size_t kAtOnceMax = 4;

  // All are borrowed.
  Departures(control::Plane& plane, motion::AdapterSide& side, motion::Arbiter& arbiter,
             const calls::HostCalls& calls, const FindMonitor& find_monitor);
  ~Departures();
  Departures(const Departures&) = delete;
  Departures& operator=(const Departures&) = delete;

  // As in motion::MotionService.
  Result<motion::MotionState> start(const motion::MotionWish& wish);
  Result<void> check(const motion::MotionWish& wish);
  std::vector<motion::MotionState> list();
  Result<void> cancel(const std::string& vm);

  // True if `motion` is a departure of `vm` that is under way.
  bool leads(const std::string& vm, const std::string& motion);
  void add_to(motion::MotionCounters& counters);

  // As in Motions.
  void interrupt() { jobs_.interrupt(); }
  void stop() { jobs_.stop(); }

 private:
  struct Departure;

  struct Plan {
    motion::Motion motion;
    motion::MotionWish wish;
  };
  Result<Plan> complete(const motion::MotionWish& wish, const std::string& id);
  Result<std::unique_ptr<ByteChannel>> open_memory(const motion::Motion& motion);
  void lead(Departure& departure, const std::stop_token& stop);
  void arrived(const motion::Motion& motion, const motion::MotionReport& report);
  void set_state(const std::string& vm, const std::function<void(motion::MotionState&)>& change);
  void keep(motion::MotionState state);

  control::Plane& plane_;
  motion::AdapterSide& side_;
  motion::Arbiter& arbiter_;
  const calls::HostCalls& calls_;
  const FindMonitor& find_monitor_;

  std::mutex mutex_;
  motion::MotionCounters counters_;                            // guarded, like the members below
  std::map<std::string, motion::MotionState> states_;          // the newest, by VM
  std::map<std::string, std::unique_ptr<Departure>> leaving_;  // by VM
  JobThreads jobs_{"motion"};
};

}  // namespace pvrdma::moves
