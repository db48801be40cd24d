// Port: one adapter's place on the switch. The adapter's engine sends through it, and is reached through it.
//
// Life: made, then attached to the engine that has this port as its Wire, then detached before that engine
// goes away. While detached, nothing reaches the adapter; its GIDs stay bound until the engine unbinds them
// or the port goes.
//
// Re-entrancy: while a send is under way, another engine may send through any port on the same stack (local
// path). So no iterator or reference into the switch is held across a channel's call. Nothing binds, unbinds,
// attaches or detaches from inside one: those come from guest commands and the control plane, on an empty
// stack.
//
// Cost per send with a valid route: one compare, one load, one virtual call, two additions. Thread:
// shard-owned.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "fabric/path.h"
#include "fabric/switch.h"
#include "fabric/way.h"
#include "transport/transport.h"
#include "verbs/engine.h"
#include "verbs/wire.h"

namespace pvrdma::fabric {

struct PortCounters {
  struct Sent {
    std::uint64_t messages = 0;
    std::uint64_t payload_bytes = 0;
  };
  // By path. Requests, responses and datagrams together.
  std::array<Sent, kPathKinds> sent{};
  // Of what this port's engine sent, and of what came for it from other hosts.
  std::array<std::uint64_t, kDropReasons> dropped{};

  const Sent& sent_by(PathKind kind) const { return sent[static_cast<std::size_t>(kind)]; }
  std::uint64_t dropped_for(DropReason reason) const { return dropped[static_cast<std::size_t>(reason)]; }
};

class Port final : public verbs::Wire {
 public:
  // `name` is the adapter's, for logs and listings. `fabric_switch` is borrowed and outlives the port.
  Port(std::string name, Switch& fabric_switch);
  ~Port() override;  // detaches, and unbinds what is left
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // Messages to this port's GIDs go to `engine` from now on. Borrowed until detach(). Only while detached.
  void attach(verbs::Engine& engine);
  // Messages to this port's GIDs are dropped from now on. Does nothing when detached already.
  void detach();

  // While the link is down, messages from and to this port are dropped. Up at first.
  void set_link(bool up);

  // Wire (verbs/wire.h), for the engine behind this port.
  verbs::Sent send_request(verbs::PeerRoute& route, const verbs::Request& request,
                           const guestmem::SpanList& payload, Instant now) override;
  void send_response(verbs::PeerRoute& route, const verbs::Response& response,
                     const guestmem::SpanList& payload, Instant now) override;
  void send_datagram(const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                     Instant now) override;
  void flush(Instant now) override;
  bool bind_gid(const verbs::Gid& gid) override;
  void unbind_gid(const verbs::Gid& gid) override;

  // The engine that a message from another host is for. Null: link down or detached; the message is counted
  // as dropped.
  verbs::Engine* receiver();

  const std::string& name() const { return name_; }
  const Switch& fabric_switch() const { return switch_; }
  bool attached() const { return engine_ != nullptr; }
  const PortCounters& counters() const { return counters_; }

 private:
  friend class Switch;

  // Null: nowhere; counted.
  const Way* resolve(verbs::PeerRoute& route, const verbs::Gid& from, const verbs::Gid& to);
  const Way* look_up(const verbs::Gid& from, const verbs::Gid& to);
  void count_sent(PathKind kind, const guestmem::SpanList& payload);
  void count_dropped(DropReason reason) { ++counters_.dropped[static_cast<std::size_t>(reason)]; }

  std::string name_;
  Switch& switch_;
  verbs::Engine* engine_ = nullptr;  // borrowed; null while detached
  Way inbound_;                      // leads to it, for ports of this host
  bool link_up_ = true;
  PortCounters counters_;
};

}  // namespace pvrdma::fabric
