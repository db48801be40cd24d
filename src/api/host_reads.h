// HostReads: GETs that this daemon's API passes on to the daemon of another host, each in a call of its own
// (ADR 29).
//
// The thread of the API that answers the client waits. So few reads run at once, of one host even fewer, few
// more wait for one of them to end, and all end soon: a host that does not answer never takes the threads
// that other requests need.
// The other host is not trusted: its answer is bounded, and must be JSON.
//
// Thread: any but the shard's.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <utility>

#include "api/host_read_counters.h"
#include "api/host_read_messages.h"
#include "api/places.h"
#include "api/router.h"
#include "base/result.h"
#include "base/time.h"
#include "calls/conversation.h"

namespace pvrdma::api {

// Whether hosts prove by certificates who they are. Without that nothing is relayed.
enum class HostProof : bool { kNone, kCertificates };

class HostReads {
 public:
  // A client's 16 threads of a listener are enough for 4 captures, 4 watchers, these 4 reads and 2 that wait,
  // and leave 2 for other requests.
  static constexpr std::size_t kAtOnceMax = 4;
  static constexpr std::size_t kOfHostMax = 3;
  static constexpr std::size_t kWaitingMax = 2;
  static constexpr Duration kPlacePatience = std::chrono::seconds(2);
  static constexpr Duration kPatience = std::chrono::seconds(5);

  // calls::HostCalls::call().
  using CallHost = std::function<Result<std::unique_ptr<calls::Conversation>>(const std::string& host)>;

  HostReads(CallHost call_host, HostProof proof, Duration patience = kPatience,
            Duration place_patience = kPlacePatience)
      : call_host_(std::move(call_host)),
        proof_(proof),
        patience_(patience),
        places_(kAtOnceMax, kOfHostMax, {kWaitingMax, place_patience}) {}

  // The reply of `host`, or a refusal that names the host and the reason. Blocks until there is a place, then
  // for as long as `call_host` does (3 s at most), until the question is sent (Conversation::kSendPatience at
  // most; it usually fits into the socket's buffer), and for what is left of the patience then.
  Reply read(const std::string& host, const ReadWish& wish);
  HostProof proof() const { return proof_; }
  // Shared with the HostReadAnswers of this host, which may outlive this.
  const std::shared_ptr<HostReadCounters>& counters() const { return counters_; }
  // Ends the reads in progress, except that a host which is just called is awaited. Later ones end at once.
  void interrupt();

 private:
  Result<Reply> ask(const std::string& host, const ReadWish& wish);
  Result<calls::Said> converse(calls::Conversation& there, const std::string& host, const ReadWish& wish,
                               Instant until);

  const CallHost call_host_;
  const HostProof proof_;
  const Duration patience_;
  const std::shared_ptr<HostReadCounters> counters_ = std::make_shared<HostReadCounters>();

  Places places_;
  std::stop_source stop_;

  std::mutex mutex_;
  std::set<calls::Conversation*> conversations_;  // guarded; borrowed
};

}  // namespace pvrdma::api
