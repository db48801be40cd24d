// Two daemons that read from each other without a network. Thread: the test's.
#pragma once

#include <memory>
#include <string>

#include "api/api_fixture.h"
#include "api/host_read_answers.h"
#include "api/host_reads.h"
#include "calls/call_fixture.h"
#include "calls/incoming_calls.h"

namespace pvrdma::api {

// The calls that host esx-02 takes. esx-01 makes them.
class FakeOtherHost {
 public:
  // How this host's daemon calls it.
  HostReads::CallHost call() {
    return [this](const std::string&) -> Result<std::unique_ptr<calls::Conversation>> {
      return calls::call_of(incoming, "esx-01");
    };
  }
  // Answers with the API of `router`.
  void serve(std::shared_ptr<const Router> router, HostProof proof = HostProof::kCertificates) {
    incoming.on(kReadWord,
                [answers = std::make_shared<HostReadAnswers>(std::move(router), proof, counters)](
                    calls::IncomingCall& call, const calls::Said& first) { answers->answer(call, first); });
  }

  const std::shared_ptr<HostReadCounters> counters = std::make_shared<HostReadCounters>();  // of serve()
  calls::IncomingCalls incoming;
};

}  // namespace pvrdma::api
