// Arrivals: the VMs that come to this host (motion/destination.h). Other hosts call for two purposes. One
// call offers a VM; its thread leads the motion. Another call brings the memory of a motion that was
// accepted.
//
// Thread: any but the shard's.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "base/byte_channel.h"
#include "base/log.h"
#include "base/result.h"
#include "base/time.h"
#include "calls/conversation.h"
#include "calls/incoming_calls.h"
#include "control/plane/plane.h"
#include "motion/adapter_side.h"
#include "motion/arbiter.h"
#include "motion/destination.h"
#include "motion/messages.h"
#include "motion/motion_service.h"
#include "moves/find_monitor.h"

namespace pvrdma::moves {

class Arrivals {
 public:
  // Of the arrivals from one host that are told: at most this many at once, then one in each interval. Those
  // that succeed do not count. Those that are not told are counted, and are debug lines.
  static constexpr std::uint32_t kToldBurst = 20;
  static constexpr Duration kToldInterval = std::chrono::seconds(2);

  // All are borrowed. `calls` delivers calls until it is stopped.
  Arrivals(control::Plane& plane, motion::AdapterSide& side, motion::Arbiter& arbiter,
           const FindMonitor& find_monitor, calls::IncomingCalls& calls);
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

  // True if `motion` is an arrival of `vm` that is under way.
  bool leads(const std::string& vm, const std::string& motion);
  void add_to(motion::MotionCounters& counters);

 private:
  struct Memory {
    std::string from;
    std::unique_ptr<ByteChannel> channel;  // null: not here yet
  };

  void receive_vm(calls::IncomingCall& call, const calls::Said& first);
  void receive_memory(calls::IncomingCall& call, const calls::Said& first);
  std::optional<std::string> begin_telling(const std::string& peer);
  void report(const motion::Offer& offer, const Result<motion::ArrivalReport>& report, bool is_told);
  bool claim(const motion::Offer& offer, const calls::IncomingCall& call, std::string& why);
  Result<std::unique_ptr<ByteChannel>> take_memory(const motion::Motion& motion, const std::stop_token& stop,
                                                   Instant until);

  control::Plane& plane_;
  motion::AdapterSide& side_;
  motion::Arbiter& arbiter_;
  const FindMonitor& find_monitor_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::uint64_t came_ = 0;  // guarded, like the members below
  std::uint64_t not_come_ = 0;
  std::map<std::string, std::string> arriving_;  // the motion's id, by VM
  std::map<std::string, Memory> memories_;       // by motion
  // By host of the inventory: it decides how often it makes offers.
  std::map<std::string, log::LogLimiter> told_;
};

}  // namespace pvrdma::moves
