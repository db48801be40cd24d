// HostReadAnswers: answers what the daemons of other hosts read from this host's API (host_reads.h).
//
// A caller may read what is_relayed() lists, and nothing else: it is no administrator, and nothing that it
// asks leads to a third host. Few reads are answered at once, so that calls for motions find a place.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "api/host_reads.h"
#include "api/read_places.h"
#include "api/router.h"
#include "calls/incoming_calls.h"

namespace pvrdma::api {

class HostReadAnswers {
 public:
  static constexpr std::size_t kAtOnceMax = 6;
  static constexpr std::size_t kOfHostMax = HostReads::kOfHostMax;

  HostReadAnswers(std::shared_ptr<const Router> router, HostProof proof)
      : router_(std::move(router)), proof_(proof) {}

  // Answers a call whose first word is kReadWord.
  void answer(calls::IncomingCall& call, const calls::Said& first);

 private:
  Reply reply_to(const std::string& peer, const ReadWish& wish) const;

  const std::shared_ptr<const Router> router_;
  const HostProof proof_;
  ReadPlaces places_{kAtOnceMax, kOfHostMax};
};

}  // namespace pvrdma::api
