// Path: which way messages to a GID go, and why. For listings; the hot path keeps the answer in a PeerRoute.
// Thread: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pvrdma::fabric {

enum class PathKind : std::uint8_t {
  kNone,   // nobody to send to
  kLocal,  // memory copy: the peer is a port of this host
  kTcp,    // the peer is a port of another host
};
inline constexpr std::size_t kPathKinds = 3;

// As listings and metrics call it. Static storage.
constexpr std::string_view name_of(PathKind kind) {
  switch (kind) {
    case PathKind::kNone:
      return "none";
    case PathKind::kLocal:
      return "local";
    case PathKind::kTcp:
      return "tcp";
  }
  return "none";
}

// Why a message went nowhere.
enum class DropReason : std::uint8_t {
  kUnknownGid,     // no port of the switch holds the GID
  kPortDetached,   // a port holds it, but no adapter is behind the port
  kLinkDown,       // the link of the sending or of the receiving port is down
  kForeignSource,  // the sending port does not hold the GID it sends from (any more)
  kNoPath,         // a port of another host holds it, and there is no way to that host
};
inline constexpr std::size_t kDropReasons = 5;

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
  }
  return "unknown_gid";
}

struct Path {
  PathKind kind = PathKind::kNone;
  std::string reason;     // one clause for people
  std::string peer_host;  // empty: this host, or nobody knows
};

}  // namespace pvrdma::fabric
