// HostReadAnswers: answers what the daemons of other hosts read from this host's API (host_reads.h).
//
// A caller may read what is_relayed() lists, and nothing else: it is no administrator, and nothing that it
// asks leads to a third host. Few reads are answered at once and few more wait for that, so that calls for
// motions find a place.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "api/host_reads.h"
#include "api/places.h"
#include "api/router.h"
#include "calls/incoming_calls.h"

namespace pvrdma::api {

class HostReadAnswers {
 public:
  static constexpr std::size_t kAtOnceMax = 6;
  static constexpr std::size_t kOfHostMax = HostReads::kOfHostMax;
  static constexpr std::size_t kWaitingMax = 2;  // half of IncomingCalls' places are left for other calls

  // `counters` are those of this host's HostReads.
  HostReadAnswers(std::shared_ptr<const Router> router, HostProof proof,
                  std::shared_ptr<HostReadCounters> counters,
                  Duration place_patience = HostReads::kPlacePatience)
      : router_(std::move(router)),
        proof_(proof),
        counters_(std::move(counters)),
        places_(kAtOnceMax, kOfHostMax, {kWaitingMax, place_patience}) {}

  // Answers a call whose first word is kReadWord. Blocks until there is a place, and while the API answers.
  void answer(calls::IncomingCall& call, const calls::Said& first);

 private:
  Reply reply_to(const std::string& peer, const ReadWish& wish) const;

  const std::shared_ptr<const Router> router_;
  const HostProof proof_;
  const std::shared_ptr<HostReadCounters> counters_;
  Places places_;
};

}  // namespace pvrdma::api
