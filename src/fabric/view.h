// View: what the control plane tells this host's fabric about the others: which hosts there are, which way to
// them, and which GIDs they hold. Thread: values.
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
  PathKind path = PathKind::kNone;          // kTcp, kNone, or kHca: that, and tcp while it is not up
  std::string reason;                       // one clause for people
  std::vector<std::uint32_t> hca_switches;  // with kHca: the switches whose ports go by it, sorted
  friend bool operator==(const RemoteHost&, const RemoteHost&) = default;
};

struct RemoteGid {
  transport::SegmentId segment;
  verbs::Gid gid;
  transport::HostId host;
  bool is_moving = false;  // its VM is on its way from there, or has just come
  friend bool operator==(const RemoteGid&, const RemoteGid&) = default;
};

// A GID that nobody but this port may bind.
struct ReservedGid {
  transport::SegmentId segment;
  verbs::Gid gid;
  std::string port;
  friend bool operator==(const ReservedGid&, const ReservedGid&) = default;
};

struct View {
  std::vector<RemoteHost> hosts;      // without this one
  std::vector<RemoteGid> gids;        // of other hosts only
  std::vector<ReservedGid> reserved;  // of ports anywhere
  std::vector<NativeRule> natives;    // of segments whose ports may leave the cluster
  friend bool operator==(const View&, const View&) = default;
};

}  // namespace pvrdma::fabric
