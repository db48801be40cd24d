// Port: one adapter's place on the switch. The adapter's engine sends through it, and is reached through it.
//
// Life: made, then attached to the engine that has this port as its Wire, then detached before that engine
// goes away. While detached, nothing reaches the adapter; its GIDs stay bound until the engine unbinds them
// or the port goes.
//
// A port may wait for a VM that is still another host's (vMotion): what its engine binds is kept here, and
// nothing reaches it or leaves it until arrive().
//
// Re-entrancy: while a path's send is under way, another engine may open paths and send datagrams through any
// port on the same stack (local path). So no iterator or reference into the switch is held across a
// transport's call. Nothing binds, unbinds, attaches or detaches from inside one: those come from guest
// commands and the control plane, on an empty stack.
//
// Thread: shard-owned.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fabric/path_info.h"
#include "fabric/reservations.h"
#include "fabric/switch.h"
#include "fabric/transports.h"
#include "transport/transport.h"
#include "verbs/engine.h"
#include "verbs/wire.h"

namespace pvrdma::fabric {

struct PortCounters {
  std::array<transport::Traffic, kPathKinds> sent{};  // by kind of path
  // Of what this port's engine sent, and of what came for it from other hosts.
  std::array<std::uint64_t, kDropReasons> dropped{};

  transport::Traffic& sent_by(PathKind kind) { return sent[static_cast<std::size_t>(kind)]; }
  const transport::Traffic& sent_by(PathKind kind) const { return sent[static_cast<std::size_t>(kind)]; }
  std::uint64_t& dropped_for(DropReason reason) { return dropped[static_cast<std::size_t>(reason)]; }
  std::uint64_t dropped_for(DropReason reason) const { return dropped[static_cast<std::size_t>(reason)]; }
};

class Port final : public verbs::SwitchPort {
 public:
  // `name` is the adapter's, for logs and listings. `fabric_switch` is borrowed and outlives the port.
  Port(std::string name, PortIdentity identity, Switch& fabric_switch);
  ~Port() override;  // detaches, and unbinds what is left
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // Messages to this port's GIDs go to `engine` from now on. Borrowed until detach(). Only while detached.
  void attach(verbs::Engine& engine);
  // Messages to this port's GIDs are dropped from now on. Does nothing when detached already.
  void detach();

  // Waits from now on. Before attach().
  void wait();
  bool waits() const { return waits_; }
  // The VM is this host's: its GIDs are bound, whatever other host is known to hold them. One that another
  // port here holds is not. Without memory (bad_alloc) it waits still: once more binds the others.
  void arrive();
  // What this host knows of other hosts may be older than that.
  bool has_just_come(Instant now) const;
  // The other way round: the VM is another host's from now on.
  void depart();

  // While the link is down, messages from and to this port are dropped. Up at first.
  void set_link(bool up);

  // What this port sends goes through these, where there is one of the path's kind, and not straight through
  // the switch's. Borrowed; null: none. On an empty stack; from the next message on.
  void set_detours(const Transports* detours);

  // verbs::SwitchPort, for the engine behind this port.
  void send_datagram(const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                     Instant now) override;
  bool spares_retries(const verbs::Gid& peer, Instant now) const override;
  void flush(Instant now) override;
  bool bind_gid(const verbs::Gid& gid) override;
  void unbind_gid(const verbs::Gid& gid) override;
  std::uint64_t set_stopped(bool stopped) override;
  void stop(const verbs::Connection& connection) override;
  void stop_all() override;
  void on_unmapping(std::span<const std::byte> memory) override;

  // The engine that a message from another host is for. Null: link down, stopped or detached; the message is
  // counted as dropped.
  verbs::Engine* receiver();
  // While its engine takes a request that came by another way than its own messages go: answers go by that.
  void answer_by(transport::Transport& transport, const transport::Place& place,
                 const verbs::Connection& connection);
  void answer_as_usual();
  bool is_stopped() const { return stopped_; }
  // Null: it is not stopped, or the link is down.
  verbs::Engine* stopped_engine() const { return stopped_ && link_up_ ? engine_ : nullptr; }

  const std::string& name() const { return name_; }
  const PortIdentity& identity() const { return identity_; }
  const Switch& fabric_switch() const { return switch_; }
  bool attached() const { return engine_ != nullptr; }
  // An adapter is behind it, which takes messages.
  bool takes_messages() const { return attached() && !stopped_; }
  const PortCounters& counters() const { return counters_; }

 private:
  friend class Switch;

  void open_path(const verbs::Connection& connection, verbs::PathSlot& slot) override;

  verbs::PathSlot answer_slot_;
  // Where messages from this port go; counts nothing.
  Switch::Found look_up(const verbs::Gid& from, const verbs::Gid& to) const;

  const std::string name_;
  const PortIdentity identity_;
  Switch& switch_;
  verbs::Engine* engine_ = nullptr;  // borrowed; null while detached
  bool link_up_ = true;
  bool stopped_ = false;
  std::optional<Instant> arrived_at_;
  bool waits_ = false;
  std::vector<verbs::Gid> waiting_;      // GIDs, while it waits
  const Transports* detours_ = nullptr;  // borrowed
  PortCounters counters_;
};

}  // namespace pvrdma::fabric
