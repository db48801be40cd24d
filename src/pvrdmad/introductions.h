// Introductions: how the daemons of two hosts tell each other where the ends of a pipe are (path hca): a
// call, one question and one answer.
//
// Thread: any but the shard's.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"
#include "motion/conversation.h"
#include "pvrdmad/host_calls.h"
#include "transport/hca/hca.h"
#include "transport/hca/introduction.h"

namespace pvrdma::daemon {

// What a call says first when it is for a pipe.
inline constexpr const char* kPipeOffer = "pipe-offer";

// `said` is what came after a first word of kPipeOffer. Errors: EPROTO, one clause.
Result<transport::hca::Offer> pipe_offer_of(const vmm::Json& said);
vmm::Json to_json(const transport::hca::Offer& offer);
Result<transport::hca::Answer> pipe_answer_of(const vmm::Json& said);
vmm::Json to_json(const transport::hca::Answer& answer);

// Answers the call of `peer` that has said it.
void answer_pipe_offer(transport::Hca& hca, const std::string& peer, const motion::Said& said,
                       motion::Conversation& there);

class Introductions final : public transport::hca::Introducer {
 public:
  explicit Introductions(HostCalls calls) : calls_(std::move(calls)) {}

  Result<transport::hca::Answer> introduce(const std::string& host,
                                           const transport::hca::Offer& offer) override;
  // The one under way ends soon, later ones at once.
  void stop();

 private:
  static constexpr Duration kPatience = std::chrono::seconds(5);

  bool set_conversation(motion::Conversation* there);

  const HostCalls calls_;
  std::mutex mutex_;
  motion::Conversation* there_ = nullptr;  // guarded, as the next; borrowed, while there is one
  bool stopping_ = false;
};

}  // namespace pvrdma::daemon
