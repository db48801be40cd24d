// Transports: the transports of this host, at most one of each kind. Thread: shard-owned.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/time.h"
#include "transport/transport.h"

namespace pvrdma::fabric {

class Transports {
 public:
  // Borrowed until drop().
  void use(transport::Transport& transport) { at(transport.kind()) = &transport; }
  void drop(transport::PathKind kind) { at(kind) = nullptr; }

  // Null: this host has no transport of the kind.
  transport::Transport* find(transport::PathKind kind) const {
    return by_kind_[static_cast<std::size_t>(kind)];
  }

  // The transport for messages to the host if the path is of that kind: kHca while it is up, otherwise kTcp
  // until it is. Null: this host has no such transport.
  transport::Transport* way_to(transport::HostId host, transport::PathKind kind) const {
    transport::Transport* const wanted = find(kind);
    if (kind != transport::PathKind::kHca || (wanted != nullptr && wanted->is_up(host))) return wanted;
    transport::Transport* const tcp = find(transport::PathKind::kTcp);
    return tcp != nullptr ? tcp : wanted;
  }

  // way_to() for messages that are about to go: a transport that they would rather take is asked to reach the
  // host.
  transport::Transport* take_way_to(transport::HostId host, transport::PathKind kind) const {
    transport::Transport* const way = way_to(host, kind);
    transport::Transport* const wanted = find(kind);
    if (way != wanted && wanted != nullptr) wanted->prepare(host);
    return way;
  }

  // Whether any transport reaches the host.
  bool is_up(transport::HostId host) const {
    return std::any_of(by_kind_.begin(), by_kind_.end(), [host](const transport::Transport* transport) {
      return transport != nullptr && transport->is_up(host);
    });
  }

  // Whether the host is expected to be reached soon, although no transport reaches it now: its daemon has
  // said that it stops, or connections are being made.
  bool is_up_soon(transport::HostId host) const {
    return !is_up(host) &&
           std::any_of(by_kind_.begin(), by_kind_.end(), [host](const transport::Transport* transport) {
             return transport != nullptr && (transport->is_stopping(host) || transport->is_opening(host));
           });
  }

  template <typename Visit>
  void each(Visit visit) const {
    for (transport::Transport* transport : by_kind_) {
      if (transport != nullptr) visit(*transport);
    }
  }

  void flush(Instant now) const {
    each([now](transport::Transport& transport) { transport.flush(now); });
  }

 private:
  transport::Transport*& at(transport::PathKind kind) { return by_kind_[static_cast<std::size_t>(kind)]; }

  std::array<transport::Transport*, transport::kPathKinds> by_kind_{};
};

}  // namespace pvrdma::fabric
