// HostReads: GETs that this daemon's API passes on to the daemon of another host, each in a call of its own
// (ADR 29).
//
// The thread of the API that answers the client waits. So few reads run at once, of one host even fewer, and
// each ends after kPatience: a host that does not answer never takes the threads that other requests need.
// The other host is not trusted: its answer is bounded, and must be JSON.
//
// Thread: any but the shard's.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "api/host_read_messages.h"
#include "api/router.h"
#include "base/result.h"
#include "base/time.h"
#include "calls/conversation.h"

namespace pvrdma::api {

// Whether hosts prove by certificates who they are. Without that nothing is relayed.
enum class HostProof : bool { kNone, kCertificates };

class HostReads {
 public:
  // A client has half of a listener's threads: 16. Captures and watchers may take ten of them.
  static constexpr std::size_t kAtOnceMax = 4;
  static constexpr std::size_t kOfHostMax = 3;
  static constexpr Duration kPatience = std::chrono::seconds(5);

  // calls::HostCalls::call().
  using CallHost = std::function<Result<std::unique_ptr<calls::Conversation>>(const std::string& host)>;

  HostReads(CallHost call_host, HostProof proof, Duration patience = kPatience)
      : call_host_(std::move(call_host)), proof_(proof), patience_(patience) {}

  // The reply of `host`, or a refusal that names the host and the reason. Blocks for kPatience at most.
  Reply read(const std::string& host, const ReadWish& wish);
  // Ends the reads in progress soon, and later ones at once.
  void interrupt();

 private:
  class Turn;
  Result<Reply> ask(const std::string& host, const ReadWish& wish);
  Result<calls::Said> converse(calls::Conversation& there, const std::string& host, const ReadWish& wish,
                               Instant until);

  const CallHost call_host_;
  const HostProof proof_;
  const Duration patience_;

  std::mutex mutex_;
  std::map<std::string, std::size_t> running_;  // guarded, like the next: reads in progress, by host
  std::size_t running_count_ = 0;
  std::set<calls::Conversation*> conversations_;  // borrowed
  bool stopping_ = false;
};

}  // namespace pvrdma::api
