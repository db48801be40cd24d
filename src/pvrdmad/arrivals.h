// Arrivals: the VMs that come to this host (motion/destination.h), and the calls of other hosts that bring
// them, each answered by a thread of its own.
//
// A call says in its first message what it is for: an offer, whose motion it then leads, the memory of a
// motion that was accepted, or something that is no motion's.
//
// Thread: any but the shard's.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/byte_channel.h"
#include "base/log.h"
#include "base/result.h"
#include "control/adapter_control.h"
#include "control/plane/plane.h"
#include "motion/arbiter.h"
#include "motion/conversation.h"
#include "motion/destination.h"
#include "motion/moving_side.h"
#include "pvrdmad/departures.h"
#include "transport/tcp/call.h"

namespace pvrdma::daemon {

// A call of `peer` whose first words are `said`.
using AnswerOther =
    std::function<void(const std::string& peer, const motion::Said& said, motion::Conversation& there)>;

class Arrivals {
 public:
  static constexpr std::size_t kCallsMax = 16;  // that are answered at once
  static constexpr std::size_t kCallsOfHostMax = 8;

  // All borrowed. `answer_other` (may be null) answers calls that are for no motion.
  Arrivals(control::Plane& plane, motion::MovingSide& side, motion::Arbiter& arbiter,
           const FindMonitor& find_monitor, const AnswerOther& answer_other);
  ~Arrivals();
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

  // Dropped, with a line in the log, when there are too many. Thread: one.
  void answer(std::unique_ptr<transport::tcp::Call> call);

  // One of these motions, and it is under way.
  bool leads(const std::string& vm, const std::string& motion);
  void add_to(control::MotionCounters& counters);

  // Motions::stop().
  void interrupt();
  void stop();

 private:
  struct Answer;
  struct Memory {
    std::string from;
    std::unique_ptr<ByteChannel> channel;  // null: expected
  };

  void talk(Answer& answer);
  void receive_vm(const std::string& peer, const motion::Said& said, motion::Conversation& there);
  void report(const motion::Offer& offer, const Result<motion::ArrivalReport>& report);
  bool claim(const motion::Offer& offer, const std::string& peer, std::string& why);
  Result<std::unique_ptr<ByteChannel>> take_memory(const motion::Motion& motion, Instant until);
  bool is_stopping();

  control::Plane& plane_;
  motion::MovingSide& side_;
  motion::Arbiter& arbiter_;
  const FindMonitor& find_monitor_;
  const AnswerOther& answer_other_;
  log::LogLimiter dropped_log_{5, std::chrono::seconds(10)};

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;  // guarded, as what follows
  std::uint64_t came_ = 0;
  std::uint64_t not_come_ = 0;
  std::map<std::string, std::string> arriving_;  // VM: motion
  std::map<std::string, Memory> memories_;       // by motion
  std::list<std::unique_ptr<Answer>> answers_;
};

}  // namespace pvrdma::daemon
