// What listings say about paths, and why a message went nowhere. Thread: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "transport/transport.h"

namespace pvrdma::fabric {

using transport::kPathKinds;
using transport::PathKind;

// Why a message went nowhere.
enum class DropReason : std::uint8_t {
  kUnknownGid,     // no port of the switch holds the GID
  kPortDetached,   // a port holds it, but no adapter is behind the port, or one that is stopped
  kLinkDown,       // the link of the sending or of the receiving port is down
  kForeignSource,  // the sending port does not hold the GID it sends from (any more)
  kNoPath,         // a port of another host holds it, and there is no way to that host
  kNativeRefused,  // no port of the cluster holds it, and the port may not speak to such peers, or they to it
};
inline constexpr std::size_t kDropReasons = 6;

constexpr std::string_view name_of(DropReason reason) {
  switch (reason) {
    case DropReason::kUnknownGid:
      return "unknown_gid";
    case DropReason::kPortDetached:
      return "port_detached";
    case DropReason::kLinkDown:
      return "link_down";
    case DropReason::kForeignSource:
      return "foreign_source";
    case DropReason::kNoPath:
      return "no_path";
    case DropReason::kNativeRefused:
      return "native_refused";
  }
  return "unknown_gid";
}

// Which way messages to a GID go, and why.
struct PathInfo {
  PathKind kind = PathKind::kNone;
  std::string reason;     // one clause for people
  std::string peer_host;  // empty: this host, or nobody knows
};

}  // namespace pvrdma::fabric
