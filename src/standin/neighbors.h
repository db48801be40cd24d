// Neighbors: the MAC addresses that belong to GIDs. Native endpoints need the right one in address handles
// and queue pairs; adapters of one switch do not look at it. So there always is an answer, if only one that
// no native endpoint takes:
//
// * of a link-local GID, the MAC from which it was made;
// * of an address on a link of the host, the one that its kernel knows;
// * of an address behind a router, the gateway's MAC, if one was given, or else what the kernel knows;
// * else the gateway's MAC, or a locally administered one made of the last four bytes.
//
// What the kernel does not know of a link it is told to ask for. Until it knows, and for at most kPatience,
// callers look again.
//
// Thread: one at a time; never waits.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "base/time.h"
#include "standin/host_network.h"

namespace pvrdma::standin {

class Neighbors {
 public:
  // How long an address that nobody answers for holds up its users, once in kMemory.
  static constexpr Duration kPatience = std::chrono::milliseconds(200);
  static constexpr Duration kMemory = std::chrono::seconds(30);
  static constexpr std::size_t kAskedMax = 256;  // beyond them nobody waits

  Neighbors(std::unique_ptr<HostNetwork> network, std::optional<abi::Mac> gateway)
      : network_(std::move(network)), gateway_(gateway) {}

  struct Found {
    abi::Mac mac;
    bool is_asked = false;  // the kernel may know a better one soon
  };
  Found find(const abi::Gid& gid, Instant now);

 private:
  bool may_wait(const NextHop& hop, Instant now);

  std::unique_ptr<HostNetwork> network_;
  std::optional<abi::Mac> gateway_;
  std::map<NextHop, Instant> asked_;  // since when
};

}  // namespace pvrdma::standin
