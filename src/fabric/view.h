// View: what the control plane tells this host's fabric about the other hosts: which hosts exist, which path
// leads to each, and which GIDs they hold. Thread: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fabric/native_rule.h"
#include "fabric/path_info.h"
#include "transport/transport.h"
#include "verbs/ids.h"

namespace pvrdma::fabric {

struct RemoteHost {
  transport::HostId id;
  std::string name;
  PathKind path = PathKind::kNone;          // kTcp, kNone, or kHca: HCA, and TCP while HCA is not up
  std::string reason;                       // one clause for people
  std::vector<std::uint32_t> hca_switches;  // with kHca: the switches whose ports use it, sorted
  friend bool operator==(const RemoteHost&, const RemoteHost&) = default;
};

struct RemoteGid {
  transport::SegmentId segment;
  verbs::Gid gid;
  transport::HostId host;
  bool is_moving = false;  // its VM is moving away from that host, or has just arrived there
  friend bool operator==(const RemoteGid&, const RemoteGid&) = default;
};

// A GID that only this port may bind.
struct ReservedGid {
  transport::SegmentId segment;
  verbs::Gid gid;
  std::string port;
  friend bool operator==(const ReservedGid&, const ReservedGid&) = default;
};

struct View {
  std::vector<RemoteHost> hosts;      // without this host
  std::vector<RemoteGid> gids;        // held by other hosts
  std::vector<ReservedGid> reserved;  // for ports of all hosts
  std::vector<NativeRule> natives;    // for segments whose ports may leave the cluster
  friend bool operator==(const View&, const View&) = default;
};

}  // namespace pvrdma::fabric
