// Introductions: how the daemons of two hosts tell each other where the ends of a pipe are (path hca): a
// call, one question and one answer.
//
// Thread: any but the shard's.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"
#include "calls/conversation.h"
#include "calls/host_calls.h"
#include "calls/incoming_calls.h"
#include "transport/hca/hca.h"
#include "transport/hca/introduction.h"

namespace pvrdma::daemon {

// What a call says first when it is for a pipe.
inline constexpr const char* kPipeOffer = "pipe-offer";

// `said` is what came after a first word of kPipeOffer. Errors: EPROTO, one clause.
Result<transport::hca::Offer> pipe_offer_of(const calls::Json& said);
calls::Json to_json(const transport::hca::Offer& offer);
Result<transport::hca::Answer> pipe_answer_of(const calls::Json& said);
calls::Json to_json(const transport::hca::Answer& answer);

// Answers a call that began with kPipeOffer.
void answer_pipe_offer(transport::Hca& hca, calls::IncomingCall& call, const calls::Said& first);

class Introductions final : public transport::hca::Introducer {
 public:
  // `calls` is borrowed.
  explicit Introductions(const calls::HostCalls& calls) : calls_(calls) {}

  Result<transport::hca::Answer> introduce(const std::string& host,
                                           const transport::hca::Offer& offer) override;
  // The one under way ends soon, later ones at once.
  void stop();

 private:
  static constexpr Duration kPatience = std::chrono::seconds(5);

  bool set_conversation(calls::Conversation* there);

  const calls::HostCalls& calls_;
  std::mutex mutex_;
  calls::Conversation* there_ = nullptr;  // guarded, as the next; borrowed, while there is one
  bool stopping_ = false;
};

}  // namespace pvrdma::daemon
