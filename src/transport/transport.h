// Transport: makes the paths of one kind. All ways in which messages get from engine to engine follow this
// one contract. ADR 12 gives its reasons.
//
// Messages leave through the paths that a transport opens (verbs/path.h), and datagrams through the transport
// itself. The transport hands what arrives from other hosts to an Inbound, which finds the engine. The fabric
// decides which transport serves which peer. A transport does not know which port holds a GID.
//
// A new kind of path needs a folder beside this file, an enumerator here, a line in the conformance suite
// (tests/conformance) and one where pvrdmad makes its objects.
//
// Thread: shard-owned.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/blame.h"
#include "base/strong.h"
#include "base/time.h"
#include "base/words.h"
#include "guestmem/host_span.h"
#include "verbs/engine.h"
#include "verbs/message.h"
#include "verbs/path.h"
#include "verbs/payload.h"
#include "vocabulary/mac.h"

namespace pvrdma::transport {

enum class PathKind : std::uint8_t {
  kNone,   // there is no peer to send to
  kLocal,  // memory copy: the peer is an adapter of this host
  kTcp,    // the peer is an adapter of another host
  kHca,    // like kTcp, but through both hosts' RDMA NICs
  kRoce,   // the peer is a native endpoint: no adapter of the cluster
};
inline constexpr std::size_t kPathKinds = 5;

}  // namespace pvrdma::transport

namespace pvrdma {

template <>
inline constexpr std::array kWords<transport::PathKind>{
    Word{"local", transport::PathKind::kLocal}, Word{"tcp", transport::PathKind::kTcp},
    Word{"hca", transport::PathKind::kHca}, Word{"roce", transport::PathKind::kRoce},
    Word{"none", transport::PathKind::kNone}};
static_assert(kWords<transport::PathKind>.size() == transport::kPathKinds);

}  // namespace pvrdma

namespace pvrdma::transport {

// A host of the cluster. This daemon assigns the number, and never uses it for another host while it runs.
using HostId = Strong<struct HostIdTag, std::uint32_t>;

// A shard of this host, counted from 0.
using ShardNumber = Strong<struct ShardNumberTag, std::uint16_t>;

// A switch and a VLAN. A GID has a meaning within one segment only. {0, 0} is this daemon's own segment, for
// adapters that no cluster knows; its messages never leave the host.
struct SegmentId {
  std::uint32_t dvs = 0;
  std::uint16_t vlan = 0;
  friend auto operator<=>(const SegmentId&, const SegmentId&) = default;
};

// Where a path leads: to an engine of this shard, to a segment of another shard or of another host, or out of
// the cluster. Also where it begins, for a path that must name its sender or on which answers come back.
struct Place {
  verbs::Engine* engine = nullptr;  // borrowed; null: the peer is not on this shard
  HostId host;                      // for kTcp and kHca
  SegmentId segment;
  ShardNumber shard;                // for kLocal, if `engine` is null
  verbs::Engine* sender = nullptr;  // borrowed
  Mac sender_mac{};
  // No memory is lent: the path grants what it can copy at once. A decorator wraps it, or it begins or ends
  // in the ward.
  bool copies = false;
};

// A VM on this host and a VM on another one, named by the GIDs that they use.
struct VmPair {
  SegmentId segment;
  verbs::Gid own;
  verbs::Gid peer;
  friend auto operator<=>(const VmPair&, const VmPair&) = default;
};

// The messages that one adapter has sent over the paths of one kind.
struct Traffic {
  std::uint64_t messages = 0;  // requests, responses and datagrams
  std::uint64_t payload_bytes = 0;

  void count(const guestmem::SpanList& payload) {
    ++messages;
    payload_bytes += payload.bytes();
  }
};

// The messages that a transport has carried for all adapters.
struct Counters {
  std::uint64_t requests = 0;
  std::uint64_t responses = 0;
  std::uint64_t datagrams = 0;
  std::uint64_t payload_bytes = 0;

  std::uint64_t messages() const { return requests + responses + datagrams; }
};

// The outcome of a message that arrived.
enum class Delivery : std::uint8_t {
  kDelivered,      // an engine has it (and may have dropped it)
  kUnknownGid,     // no port of this host holds the destination GID
  kForeignSource,  // the sending host does not hold the source GID: it lies, or this host does not know yet
};
inline constexpr std::size_t kDeliveries = 3;

// Takes what arrives from other hosts. The transport vouches for the sending host and the segment, which its
// handshake has proven. Everything inside a message comes from the peer and is untrusted. Called on an empty
// stack.
class Inbound {
 public:
  virtual ~Inbound() = default;

  // `by`: the kind of transport that has brought the request. The answers go back by the same kind.
  virtual Delivery on_request(HostId from, PathKind by, SegmentId segment, const verbs::Request& request,
                              verbs::Payload& payload, Instant now) = 0;
  virtual Delivery on_response(HostId from, SegmentId segment, const verbs::Response& response,
                               verbs::Payload& payload, Instant now) = 0;
  virtual Delivery on_datagram(HostId from, SegmentId segment, const verbs::Datagram& datagram,
                               const guestmem::SpanList& payload, Instant now) = 0;

  // Paths to the host that had no room have room again.
  virtual void on_ready(HostId host, Instant now) = 0;
  // Messages that were sent to the host and are unanswered may be lost. From now on messages reach it.
  virtual void on_restored(HostId host, Instant now) = 0;
  // is_up(host) has changed.
  virtual void on_up_changed(HostId host, Instant now) = 0;

  // For paths that read and write guest memory themselves. Returns the engine on this host that holds `own`
  // and may exchange messages with `peer` at that host; null if there is none now.
  virtual verbs::Engine* find_pair(HostId /*host*/, const VmPair& /*pair*/) { return nullptr; }
  // Like on_restored(), but only for those connections of the pair that `affected` picks by their QP on this
  // host.
  virtual void on_pair_restored(HostId /*host*/, const VmPair& /*pair*/,
                                const std::function<bool(verbs::Qpn own)>& /*affected*/, Instant /*now*/) {}
  // The path no longer reads an answer that it had borrowed from that QP, of an engine on this host
  // (verbs/path.h).
  virtual void on_returned(verbs::Engine& /*engine*/, verbs::Qpn /*qpn*/, std::uint32_t /*rkey*/) {}
};

// Takes what arrives from the other shards of this host. Called on an empty stack.
class SiblingInbound {
 public:
  virtual ~SiblingInbound() = default;

  // The engine that a message is for. Null: the shard does not hold the source, this one does not hold the
  // destination, or the port is down or has no adapter. `is_early`: the adapter is stopped, so the engine is
  // only told of a request (Engine::on_early_request()). `lender`: the sender, which is blamed for what
  // reading its memory takes; null: nobody is.
  struct Admission {
    verbs::Engine* engine = nullptr;
    bool is_early = false;
    Blame::Party* lender = nullptr;
  };
  virtual Admission admit(ShardNumber from, SegmentId segment, const verbs::Gid& source,
                          const verbs::Gid& destination) = 0;
  // Paths to other shards that had no room have room again.
  virtual void on_room() = 0;
  // Messages that were sent to the shard and are unanswered may be lost.
  virtual void on_restored(ShardNumber shard, Instant now) = 0;
};

// Whether a packet that comes from outside the cluster, or seems to, is admitted.
enum class Entry : std::uint8_t {
  kAdmitted,
  kUnknownGid,     // no port of this host holds the destination GID with the destination MAC
  kForeignSource,  // a port of the cluster holds the source GID, or did just now: it is forged or stale
  kNotAllowed,     // the segment or the port may not exchange packets with such a peer
};
inline constexpr std::size_t kEntries = 4;

// Decides about packets that arrive from native endpoints. Everything in a packet is untrusted. Called on an
// empty stack.
class NativeInbound {
 public:
  virtual ~NativeInbound() = default;

  // `engine` is null if no engine gets the packet: after a refusal, and after kAdmitted if the port is down
  // or has no adapter.
  struct Admission {
    Entry verdict;
    verbs::Engine* engine;
  };
  virtual Admission admit(SegmentId segment, const verbs::Gid& source, const verbs::Gid& destination,
                          const Mac& destination_mac) = 0;

  // Paths out of the segment that had no room have room again.
  virtual void on_room(SegmentId segment) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual PathKind kind() const = 0;
  virtual const Counters& counters() const = 0;

  // An adapter on this shard begins to use the transport, until take_back() of all its memory. Called before
  // the adapter's first path is opened, in a command: it may allocate (bad_alloc).
  virtual void join(verbs::Engine& /*engine*/) {}

  // Opens a path for a connection of an adapter on this host. If the place cannot be reached yet, the path
  // has no room until it can. The path borrows `traffic` and parts of the transport. They outlive it, or the
  // fabric opens another path before this one is used again. A path may be closed after the transport has
  // ended. So if closing it uses parts of the transport, the path shares their ownership.
  virtual void open(const Place& place, const verbs::Connection& connection, Traffic& traffic,
                    verbs::PathSlot& slot) = 0;

  // `payload` holds datagram.bytes bytes and is borrowed during the call. The datagram may be lost, as on a
  // path. Returns false if there is no room for another one to that place now: Inbound::on_ready() or
  // on_room() tells when there is.
  virtual bool send_datagram(const Place& place, const verbs::Datagram& datagram,
                             const guestmem::SpanList& payload, Traffic& traffic, Instant now) = 0;

  // When stop() returns, no path of this transport reads or writes memory for the connection any more; when
  // stop_all() returns, for any connection of the engine. Messages in flight for these connections, and
  // perhaps for others between the same two VMs, are lost. How long a call takes is bounded by this host's
  // own hardware and does not depend on a peer.
  virtual void stop(SegmentId /*segment*/, const verbs::Connection& /*connection*/) {}
  virtual void stop_all(const verbs::Engine& /*engine*/) {}
  // Like stop_all(), called before `memory` stops being the engine's. When it returns, no RDMA device has
  // access to that memory any more. Empty: all memory of the engine.
  virtual void take_back(const verbs::Engine& /*engine*/, std::span<const std::byte> /*memory*/) {}

  // The clause of a path whose lanes are down.
  static constexpr std::string_view kNotConnected = "not connected now";

  // Whether messages reach that other host now. False also if its connections rest because nothing needs
  // them.
  virtual bool is_up(HostId host) const = 0;
  // Whether the host's daemon said that it stops, and has not been up since. Nothing says whether another one
  // will follow: a daemon that restarts does not know.
  virtual bool is_stopping(HostId /*host*/) const { return false; }
  // Whether they will in a moment: connections to the host are made when they are needed, and those that are
  // being made have not failed yet.
  virtual bool is_opening(HostId /*host*/) const { return false; }
  // Messages to the host take another transport because this one does not reach it: if it connects to hosts
  // on demand, it connects to this one. Inbound::on_up_changed() tells when it is up.
  virtual void prepare(HostId /*host*/) {}
  // Why they do not, or seem not to: one clause. Empty if they do, or if the transport cannot say.
  virtual std::string trouble(HostId /*host*/) const { return {}; }

  // Whether the transport leads out of the cluster, to the native endpoints of the segment.
  virtual bool leaves(SegmentId /*segment*/) const { return false; }

  // Sends everything that is queued: small messages may have been gathered.
  virtual void flush(Instant now) = 0;
};

}  // namespace pvrdma::transport
