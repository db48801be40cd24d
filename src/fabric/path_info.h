// What listings show about paths, and why messages are dropped. Thread: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "transport/transport.h"

namespace pvrdma::fabric {

using transport::kPathKinds;
using transport::PathKind;

// Why a message was dropped.
enum class DropReason : std::uint8_t {
  kUnknownGid,     // no port of the switch holds the GID
  kPortDetached,   // a port holds it, but the port has no adapter, or a stopped one
  kLinkDown,       // the link of the sending or of the receiving port is down
  kForeignSource,  // the sending port does not, or no longer, hold the GID it sends from
  kNoPath,         // a port of another host holds it, and no path leads to that host
  // No port of the cluster holds it, and the rules do not let the port talk to such peers, or them to the
  // port.
  kNativeRefused,
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

// Why the messages of a connection are dropped, as a clause for people. Static storage.
constexpr std::string_view clause_of(DropReason reason) {
  switch (reason) {
    case DropReason::kUnknownGid:
      return "no port of its segment holds the peer's GID";
    case DropReason::kPortDetached:
      return "no running adapter is behind its port, or behind the port that holds the peer's GID";
    case DropReason::kLinkDown:
      return "the link of its port, or of the port that holds the peer's GID, is down";
    case DropReason::kForeignSource:
      return "its port no longer holds the GID that the QP sends from";
    case DropReason::kNoPath:
      return "this host has no path to the host or the segment of the peer";
    case DropReason::kNativeRefused:
      return "no port of the cluster holds the peer's GID, and the port may not talk to it as a native "
             "endpoint";
  }
  return {};
}

// The path of messages to a GID, and why they take it.
struct PathInfo {
  PathKind kind = PathKind::kNone;
  std::string reason;     // one clause for people
  std::string peer_host;  // empty: this host, or an unknown host
};

}  // namespace pvrdma::fabric
