// CallIntroducer: asks another host's daemon for its end of a pipe, in one call with one question and one
// answer.
//
// Thread: any but the shard's.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"
#include "calls/conversation.h"
#include "calls/host_calls.h"
#include "calls/incoming_calls.h"
#include "transport/hca/hca.h"
#include "transport/hca/introduction.h"

namespace pvrdma::transport::hca {

// The first word of a call that offers a pipe.
inline constexpr const char* kPipeOffer = "pipe-offer";

// The word of the answer to it.
inline constexpr const char* kPipeAnswer = "pipe-answer";

// Errors of reading: EPROTO, one clause.
Result<void> say_pipe_offer(calls::Conversation& there, const PipeOffer& offer);
Result<PipeOffer> read_pipe_offer(const calls::Said& said);
Result<void> say_pipe_answer(calls::Conversation& there, const PipeAnswer& answer);
Result<PipeAnswer> read_pipe_answer(const calls::Said& said);

// The Hca of a shard of this host. Null: there is no such shard.
using FindHca = std::function<Hca*(ShardNumber)>;

// Answers a call whose first word is kPipeOffer.
void answer_pipe_offer(const FindHca& find, calls::IncomingCall& call, const calls::Said& first);

// One thread asks all hosts. A host that takes long to answer is asked again after kShare times as long, so
// that it does not keep the thread from the others, however many of its shards are wanted.
//
// Thread: check() and introduce() one; stop() any.
class CallIntroducer final : public Introducer {
 public:
  // `calls` is borrowed.
  explicit CallIntroducer(const calls::HostCalls& calls) : calls_(calls) {}

  Result<void> check(const std::string& host) override;
  Result<PipeAnswer> introduce(const std::string& host, const PipeOffer& offer) override;
  // Ends a call in progress soon and later calls at once.
  void stop();

 private:
  static constexpr Duration kPatience = std::chrono::seconds(5);
  static constexpr int kShare = 4;
  // An answer within this time costs the others nothing.
  static constexpr Duration kShort = std::chrono::milliseconds(20);

  Result<PipeAnswer> ask(const std::string& host, const PipeOffer& offer);
  bool set_conversation(calls::Conversation* there);

  const calls::HostCalls& calls_;
  std::map<std::string, Instant> not_before_;  // by host
  std::mutex mutex_;
  calls::Conversation* there_ = nullptr;  // the call in progress, borrowed; guarded, as the next
  bool stopping_ = false;
};

}  // namespace pvrdma::transport::hca
