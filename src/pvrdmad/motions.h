// Motions: the VMs that leave this host and those that come to it (motion/source.h, destination.h), each led
// by a thread of its own; and the connections between daemons that they need.
//
// A connection says in its first message what it is for: an offer, whose motion it then leads, or the memory
// of a motion that was accepted.
//
// Thread: any but the shard's; take_call() the shard's.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "control/adapter_control.h"
#include "control/plane/plane.h"
#include "motion/conversation.h"
#include "motion/destination.h"
#include "motion/moving_side.h"
#include "motion/source.h"
#include "pvrdmad/store_arbiter.h"
#include "tls/context.h"
#include "transport/tcp/call.h"

namespace pvrdma::daemon {

class Motions {
 public:
  static constexpr std::size_t kDeparturesMax = 4;
  static constexpr std::size_t kCallsWaitingMax = 8;
  static constexpr std::size_t kCallsMax = 16;  // that are answered at once
  static constexpr std::size_t kCallsOfHostMax = 8;

  // Where a VM's QEMU has its monitor.
  using FindMonitor = std::function<Result<std::string>(const std::string& vm)>;

  // `plane` and `side` are borrowed. `tls` null: calls are plain.
  Motions(control::Plane& plane, motion::MovingSide& side, std::unique_ptr<tls::Context> tls,
          FindMonitor find_monitor);
  ~Motions();
  Motions(const Motions&) = delete;
  Motions& operator=(const Motions&) = delete;

  // As control::AdapterControl's.
  Result<control::MotionState> start(const control::MotionWish& wish);
  Result<void> check(const control::MotionWish& wish);
  std::vector<control::MotionState> list();
  Result<void> cancel(const std::string& vm);
  control::MotionCounters counters();

  // Another host's. Dropped when there are too many.
  void take_call(std::unique_ptr<transport::tcp::Stream> stream, std::string peer);

  // Ends what is under way, as far as it can be: a VM that may be elsewhere stands. Blocks for a bounded
  // time; what comes later is refused. Once.
  void stop();

 private:
  struct Departure;
  struct Answer;

  Result<motion::MotionWish> complete(const control::MotionWish& wish, const std::string& id);
  Result<std::unique_ptr<ByteChannel>> call(const std::string& host);
  Result<std::unique_ptr<ByteChannel>> open_memory(const motion::Motion& motion);
  void set_conversation(Departure& departure, motion::Conversation* there);
  void lead(Departure& departure);
  void set_state(const std::string& vm, const std::function<void(control::MotionState&)>& change);
  void keep(control::MotionState state);

  void attend();
  std::unique_ptr<transport::tcp::Call> next_call();
  void begin_answer(std::unique_ptr<transport::tcp::Call> call);
  void look_after_records();
  void answer(Answer& answer);
  void receive_vm(const std::string& peer, const motion::Said& said, motion::Conversation& there);
  bool claim(const motion::Offer& offer, const std::string& peer, std::string& why);
  Result<std::unique_ptr<ByteChannel>> take_memory(const std::string& id, Instant until);

  control::Plane& plane_;
  motion::MovingSide& side_;
  const std::unique_ptr<tls::Context> tls_;
  const FindMonitor find_monitor_;
  StoreArbiter arbiter_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;  // guarded, as what follows
  control::MotionCounters counters_;
  std::map<std::string, control::MotionState> states_;         // by VM, the newest
  std::map<std::string, std::unique_ptr<Departure>> leaving_;  // by VM
  std::map<std::string, std::string> arriving_;                // VM: motion
  struct Memory {
    std::string from;
    std::unique_ptr<ByteChannel> channel;  // null: expected
  };
  std::map<std::string, Memory> memories_;  // by motion
  std::list<std::unique_ptr<Answer>> answers_;

  // What the shard gives. Its own lock, under which nothing is allocated or waited for.
  std::mutex calls_mutex_;
  std::condition_variable call_came_;
  std::array<std::unique_ptr<transport::tcp::Call>, kCallsWaitingMax> calls_;  // guarded, as the next
  bool takes_calls_ = true;

  std::thread clerk_;  // answers calls, and looks after records
};

}  // namespace pvrdma::daemon
