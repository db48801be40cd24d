// Port: one adapter's place on the switch. The adapter's engine sends through the port and receives through
// it.
//
// Life: a port is made, then attached to the engine that has this port as its Wire, then detached before that
// engine is destroyed. While it is detached, nothing reaches the adapter. Its GIDs stay bound until the
// engine unbinds them or the port is destroyed.
//
// A port may wait for a VM that still belongs to another host (vMotion). Then it only records what its engine
// binds, and no message reaches it or leaves it until arrive().
//
// Re-entrancy: during a path's send, another engine may open paths and send datagrams through any port on the
// same stack (local path). So the code holds no iterator or reference into the switch across a transport's
// call. Nothing binds, unbinds, attaches or detaches during such a call: guest commands and the control plane
// do that, on an empty stack.
//
// Thread: shard-owned.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fabric/host_gids.h"
#include "fabric/path_info.h"
#include "fabric/reservations.h"
#include "fabric/switch.h"
#include "fabric/transports.h"
#include "transport/transport.h"
#include "verbs/engine.h"
#include "verbs/wire.h"

namespace pvrdma::fabric {

struct PortCounters {
  std::array<transport::Traffic, kPathKinds> sent{};  // indexed by kind of path
  // Messages that this port's engine sent, or that came for it from other hosts.
  std::array<std::uint64_t, kDropReasons> dropped{};

  transport::Traffic& sent_by(PathKind kind) { return sent[static_cast<std::size_t>(kind)]; }
  const transport::Traffic& sent_by(PathKind kind) const { return sent[static_cast<std::size_t>(kind)]; }
  std::uint64_t& dropped_for(DropReason reason) { return dropped[static_cast<std::size_t>(reason)]; }
  std::uint64_t dropped_for(DropReason reason) const { return dropped[static_cast<std::size_t>(reason)]; }
};

class Port final : public verbs::SwitchPort {
 public:
  // `name` is the adapter's name, for logs and listings. `fabric_switch` is borrowed and outlives the port.
  Port(std::string name, PortIdentity identity, Switch& fabric_switch);
  ~Port() override;  // detaches, and unbinds the remaining GIDs
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // Messages to this port's GIDs now go to `engine`. Borrowed until detach(). The port must be detached. If
  // memory runs out (bad_alloc), it stays so.
  void attach(verbs::Engine& engine);
  // Detaches the attached engine and attaches `next`. `between` runs while the port is detached and must not
  // throw. If memory runs out (bad_alloc), nothing has changed.
  template <typename Between>
  void replace(verbs::Engine& next, Between between) {
    join(next);
    detach();
    between();
    seat(next);
  }
  // Messages to this port's GIDs are now dropped. Does nothing if already detached.
  void detach();

  // Makes the port wait for its VM. Called before attach().
  void wait();
  bool waits() const { return waits_; }
  // The VM now belongs to this host: binds its GIDs, even if another host is still known to hold them. A GID
  // that another port of this host holds is not bound. If memory runs out (bad_alloc), the port still waits;
  // calling again binds the rest.
  void arrive();
  // Whether the VM arrived so recently that this host's knowledge of other hosts may be older.
  bool has_just_come(Instant now) const;
  // The reverse: the VM now belongs to another host.
  void depart();

  // --- The adapter moves to another shard of this host, and has a port on each meanwhile. Both are stopped.
  // ---

  struct Predecessor {
    HostGids::PortNumber number;
    PortCounters counters;
    std::optional<Instant> arrived_at;
  };
  Predecessor as_predecessor() const { return {number_, counters_, arrived_at_}; }
  HostGids::Holder as_holder() const;
  // This port takes the place of that one and counts on. It binds what that port holds, but the host knows
  // only that port until its hand_over(). Called before attach().
  void follow(const Predecessor& predecessor) {
    predecessor_ = predecessor.number;
    counters_ = predecessor.counters;
    arrived_at_ = predecessor.arrived_at;
  }
  // The GIDs and addresses of this port now belong to its follower.
  void hand_over(const HostGids::Holder& follower) { switch_.hand_over(*this, follower); }
  // The predecessor has handed over.
  void end_following() {
    if (std::exchange(predecessor_, std::nullopt)) switch_.tell_moved(*this);
  }

  // While the link is down, messages from and to this port are dropped. It is up at first.
  void set_link(bool up);

  // Sends this port's messages through `detours` instead of the switch's transports, for each kind of path
  // that `detours` has. Borrowed; null: no detours. On an empty stack; takes effect with the next message.
  void set_detours(const Transports* detours);

  // verbs::SwitchPort, for the engine behind this port.
  bool send_datagram(const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                     Instant now) override;
  bool spares_retries(const verbs::Gid& peer, Instant now) const override;
  std::optional<verbs::PeerPlace> place_of(const verbs::Gid& peer) const override;
  void flush(Instant now) override;
  bool bind_gid(const verbs::Gid& gid) override;
  void unbind_gid(const verbs::Gid& gid) override;
  std::uint64_t set_stopped(bool stopped) override;
  void stop(const verbs::Connection& connection) override;
  void stop_all() override;
  void on_unmapping(std::span<const std::byte> memory) override;

  // The engine that receives a message from another host. Null: the link is down, or the adapter is stopped
  // or detached; the message is counted as dropped.
  verbs::Engine* receiver();
  // Used while the engine takes a request that came over another path than its own messages take: its answers
  // then take that path too.
  void answer_by(transport::Transport& transport, const transport::Place& place,
                 const verbs::Connection& connection);
  void answer_as_usual();
  bool is_stopped() const { return stopped_; }
  // Null: the adapter is not stopped, or the link is down.
  verbs::Engine* stopped_engine() const { return stopped_ && link_up_ ? engine_ : nullptr; }

  const std::string& name() const { return name_; }
  const PortIdentity& identity() const { return identity_; }
  const Switch& fabric_switch() const { return switch_; }
  bool attached() const { return engine_ != nullptr; }
  // Whether an adapter is attached and not stopped.
  bool takes_messages() const { return attached() && !stopped_; }
  // Whether messages from this host reach the adapter, and if not, why.
  HostGids::Reach reach() const;
  const PortCounters& counters() const { return counters_; }

 private:
  friend class Switch;

  void open_path(const verbs::Connection& connection, verbs::PathSlot& slot) override;
  // Lets the engine use the transports. If memory runs out (bad_alloc), it uses none.
  void join(verbs::Engine& engine);
  // Messages now go to the engine, which has joined.
  void seat(verbs::Engine& engine);
  // Where messages from this port go. Counts nothing.
  Switch::Found look_up(const verbs::Gid& from, const verbs::Gid& to) const;

  const std::string name_;
  const PortIdentity identity_;
  Switch& switch_;
  const HostGids::PortNumber number_;
  verbs::Engine* engine_ = nullptr;  // borrowed; null while detached
  bool link_up_ = true;
  bool stopped_ = false;
  std::optional<Instant> arrived_at_;
  bool waits_ = false;
  std::vector<verbs::Gid> waiting_;                  // GIDs to bind on arrive()
  std::optional<HostGids::PortNumber> predecessor_;  // empty: it follows no port
  const Transports* detours_ = nullptr;              // borrowed
  verbs::PathSlot answer_slot_;
  PortCounters counters_;
};

}  // namespace pvrdma::fabric
