// IncomingCalls: the calls of other hosts' daemons, each answered on a thread of its own.
//
// The first word of a call's first message says what the call is for. It selects the function that answers
// the call. A call with an unknown first word is ended.
//
// Thread: take() is the shard's; all others are for any other thread.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "base/byte_channel.h"
#include "base/job_threads.h"
#include "base/log.h"
#include "calls/conversation.h"
#include "transport/tcp/call.h"

namespace pvrdma::calls {

// A call that is being answered. A stop interrupts its waiting, until its channel was given away.
class IncomingCall {
 public:
  IncomingCall(std::unique_ptr<transport::tcp::Call> call, std::stop_token stop);

  // The other host, whose identity has been verified.
  const std::string& peer() const { return peer_; }
  Conversation& there() { return there_; }
  const std::stop_token& stop() const { return stop_; }
  // As Conversation::give_channel().
  std::unique_ptr<ByteChannel> give_channel();

 private:
  const std::string peer_;
  Conversation there_;
  const std::stop_token stop_;
  std::optional<std::stop_callback<std::function<void()>>> interrupts_;
};

class IncomingCalls {
 public:
  static constexpr std::size_t kWaitingMax = 8;
  static constexpr std::size_t kAnsweredMax = 16;  // at once
  static constexpr std::size_t kAnsweredOfHostMax = 8;

  // Runs on the call's thread. `first` is its first message.
  using Answer = std::function<void(IncomingCall& call, const Said& first)>;

  IncomingCalls();
  ~IncomingCalls() { stop(); }
  IncomingCalls(const IncomingCalls&) = delete;
  IncomingCalls& operator=(const IncomingCalls&) = delete;

  // `answer` answers the calls that begin with `first_word`, until stop() returns. Register each word once.
  void on(std::string first_word, Answer answer);
  // Drops the call if too many calls wait or are being answered.
  void take(std::unique_ptr<transport::tcp::Stream> stream, std::string peer);

  // Interrupts the calls that are being answered, and takes no further call.
  void interrupt();
  // Like interrupt(), and waits until all calls have ended.
  void stop();

 private:
  void hand_on();
  std::unique_ptr<transport::tcp::Call> next();
  void begin(std::unique_ptr<transport::tcp::Call> call);
  bool has_place(const std::string& peer);
  void leave_place(const std::string& peer);
  void answer(std::unique_ptr<transport::tcp::Call> call, const std::stop_token& stop);
  const Answer* answer_of(const Said& first);

  log::LogLimiter dropped_log_{5, std::chrono::seconds(10)};  // used by the clerk only

  // The calls that the shard hands over. They have a lock of their own, under which nothing allocates or
  // blocks.
  std::mutex waiting_mutex_;
  std::condition_variable call_came_;
  std::array<std::unique_ptr<transport::tcp::Call>, kWaitingMax> waiting_;  // a ring; guarded, like the next
  std::size_t first_waiting_ = 0;                                           // the one that waits longest
  std::size_t waiting_count_ = 0;
  bool takes_calls_ = true;

  std::mutex mutex_;
  std::map<std::string, Answer> answers_;        // guarded, like those below; by first word, never erased
  std::map<std::string, std::size_t> answered_;  // by host: calls that are being answered
  std::size_t answered_count_ = 0;

  JobThreads jobs_{"call"};
  std::thread clerk_;  // starts a job for each call
};

}  // namespace pvrdma::calls
