// Transport: makes the paths of one kind. The one contract of all ways in which messages get from engine to
// engine; ADR 12 says why it is as it is, and what comes.
//
// What leaves goes through the paths that a transport opens (verbs/path.h) and, for datagrams, through the
// transport itself. What arrives from other hosts it hands to an Inbound, which finds the engine. Which
// transport serves which peer is the fabric's decision; who holds a GID is not a transport's business.
//
// A new kind of path is a folder beside this file, an enumerator here, a line in the conformance suite
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
  kNone,   // nobody to send to
  kLocal,  // memory copy: the peer is an adapter of this host
  kTcp,    // the peer is an adapter of another host
  kHca,    // the same, through both hosts' RDMA NICs
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

// A host of the cluster, as this daemon numbers it. Never used again for another host while the daemon lives.
using HostId = Strong<struct HostIdTag, std::uint32_t>;

// A switch and a VLAN: GIDs mean something inside one segment only. {0, 0} is this daemon's own, for adapters
// that no cluster knows; it never leaves the host.
struct SegmentId {
  std::uint32_t dvs = 0;
  std::uint16_t vlan = 0;
  friend auto operator<=>(const SegmentId&, const SegmentId&) = default;
};

// Where a path leads: to an engine of this host, to a segment of another, or out of the cluster. And where it
// begins, for a path that has to say so, or on which something comes back.
struct Place {
  verbs::Engine* engine = nullptr;  // borrowed; null: not on this host
  HostId host;                      // of kTcp and kHca
  SegmentId segment;
  verbs::Engine* sender = nullptr;  // borrowed
  Mac sender_mac{};
};

// Two VMs of which one is here, by the GIDs by which they speak.
struct VmPair {
  SegmentId segment;
  verbs::Gid own;
  verbs::Gid peer;
  friend auto operator<=>(const VmPair&, const VmPair&) = default;
};

// What one adapter has sent over the paths of one kind.
struct Traffic {
  std::uint64_t messages = 0;  // requests, responses and datagrams
  std::uint64_t payload_bytes = 0;

  void count(const guestmem::SpanList& payload) {
    ++messages;
    payload_bytes += payload.bytes();
  }
};

// What a transport has carried for all adapters.
struct Counters {
  std::uint64_t requests = 0;
  std::uint64_t responses = 0;
  std::uint64_t datagrams = 0;
  std::uint64_t payload_bytes = 0;

  std::uint64_t messages() const { return requests + responses + datagrams; }
};

// What became of a message that arrived.
enum class Delivery : std::uint8_t {
  kDelivered,      // an engine has it (and may have dropped it)
  kUnknownGid,     // no port of this host holds the GID it is for
  kForeignSource,  // the sending host does not hold the GID it is from: a lie, or news not here yet
};
inline constexpr std::size_t kDeliveries = 3;

// Takes what arrives from other hosts. The sending host and the segment are the transport's word, proven by
// its handshake; everything inside a message is the peer's and untrusted. Called on an empty stack.
class Inbound {
 public:
  virtual ~Inbound() = default;

  // `by`: the kind of transport that has brought it. What answers it goes back by that.
  virtual Delivery on_request(HostId from, PathKind by, SegmentId segment, const verbs::Request& request,
                              verbs::Payload& payload, Instant now) = 0;
  virtual Delivery on_response(HostId from, SegmentId segment, const verbs::Response& response,
                               verbs::Payload& payload, Instant now) = 0;
  virtual Delivery on_datagram(HostId from, SegmentId segment, const verbs::Datagram& datagram,
                               const guestmem::SpanList& payload, Instant now) = 0;

  // Paths to the host that had no room have some.
  virtual void on_ready(HostId host, Instant now) = 0;
  // What was sent to the host and not answered may be lost, in part; from now on messages get there.
  virtual void on_restored(HostId host, Instant now) = 0;
  // is_up(host) has changed.
  virtual void on_up_changed(HostId host, Instant now) = 0;

  // For paths that read and write guests' memory by themselves. The engine here that holds `own` and may
  // speak with `peer` at that host; null: none now.
  virtual verbs::Engine* find_pair(HostId /*host*/, const VmPair& /*pair*/) { return nullptr; }
  // As on_restored(), of what those of the two's connections have sent each other that `affected` picks by
  // the QP here.
  virtual void on_pair_restored(HostId /*host*/, const VmPair& /*pair*/,
                                const std::function<bool(verbs::Qpn own)>& /*affected*/, Instant /*now*/) {}
  // An answer of that QP, of an engine here, is read no more (verbs/path.h).
  virtual void on_returned(verbs::Engine& /*engine*/, verbs::Qpn /*qpn*/, std::uint32_t /*rkey*/) {}
};

// Whether a packet from outside the cluster, or that seems so, comes in.
enum class Entry : std::uint8_t {
  kAdmitted,
  kUnknownGid,     // no port of this host holds the GID it is for, or has the MAC
  kForeignSource,  // a port of the cluster holds the GID it is from, or did a moment ago: forged, or stale
  kNotAllowed,     // neither segment nor port speak to such a peer
};
inline constexpr std::size_t kEntries = 4;

// Takes what arrives from native endpoints. Everything in a packet is untrusted. Called on an empty stack.
class NativeInbound {
 public:
  virtual ~NativeInbound() = default;

  // `engine` is null when nobody is to have it: also with kAdmitted, when the port is down or has no adapter.
  struct Admission {
    Entry verdict;
    verbs::Engine* engine;
  };
  virtual Admission admit(SegmentId segment, const verbs::Gid& source, const verbs::Gid& destination,
                          const Mac& destination_mac) = 0;

  // Paths out of the segment that had no room have some.
  virtual void on_room(SegmentId segment) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual PathKind kind() const = 0;
  virtual const Counters& counters() const = 0;

  // Opens a path for a connection of an adapter here. The place may be one that cannot be reached yet: then
  // the path has no room until it can. What it borrows of the transport and `traffic` outlives it, or the
  // fabric opens another before it is used again. It may be closed later than the transport ends: one that
  // reaches into its transport then shares the ownership of what it reaches.
  virtual void open(const Place& place, const verbs::Connection& connection, Traffic& traffic,
                    verbs::PathSlot& slot) = 0;

  // `payload` holds datagram.bytes bytes, borrowed during the call. May be lost, as by a path.
  virtual void send_datagram(const Place& place, const verbs::Datagram& datagram,
                             const guestmem::SpanList& payload, Traffic& traffic, Instant now) = 0;

  // When it returns, no path of this transport reads or writes memory for the connection, or for any of the
  // engine's; what was under way for it, and perhaps for others of the same two VMs, is lost. Bounded by what
  // this host has.
  virtual void stop(SegmentId /*segment*/, const verbs::Connection& /*connection*/) {}
  virtual void stop_all(const verbs::Engine& /*engine*/) {}
  // The same; and that memory is the engine's no more. Empty: all there was.
  virtual void take_back(const verbs::Engine& /*engine*/, std::span<const std::byte> /*memory*/) {}

  // Whether messages get to the host, another one, now.
  virtual bool is_up(HostId host) const = 0;
  // Why they do not, one clause. Empty: they do, or it cannot say.
  virtual std::string trouble(HostId /*host*/) const { return {}; }

  // Whether it leads out of the cluster, to the native endpoints of the segment.
  virtual bool leaves(SegmentId /*segment*/) const { return false; }

  // Everything sent so far goes out now: small messages may have been gathered.
  virtual void flush(Instant now) = 0;
};

}  // namespace pvrdma::transport
