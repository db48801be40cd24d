// HostLanes: all lanes between this host and another: those it dialled and those it accepted. Chooses the
// one a message takes, and tells Inbound how the host fares.
//
// Made when its host is first mentioned and kept until Tcp goes, so that paths can hold it.
//
// Thread: shard-owned.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "transport/tcp/accepted_lane.h"
#include "transport/tcp/dialled_lane.h"

namespace pvrdma::transport::tcp {

class HostLanes {
 public:
  // `shared` is borrowed and outlives this.
  HostLanes(TcpShared& shared, HostId id);
  HostLanes(const HostLanes&) = delete;
  HostLanes& operator=(const HostLanes&) = delete;

  HostId id() const { return id_; }
  // None: no peer, or one to which nothing may connect now.
  const std::optional<TcpPeer>& peer() const { return peer_; }

  // Connections that stand are kept if the peer is as it was and `anew` is not asked for. `denied`: nothing
  // may connect, and why; empty when it may.
  void configure(const std::optional<TcpPeer>& peer, std::string_view denied, bool anew, Instant now);
  void close(wire::GoodbyeReason reason, std::string_view sentence, Instant now);

  // Takes over a lane that has been admitted; an older one of the same lane goes.
  // What adopt() needs; it allocates nothing else.
  void make_room(std::uint16_t lanes);
  void adopt(std::unique_ptr<AcceptedLane> lane, std::uint16_t lanes, Instant now);

  bool is_up() const;
  TcpPeerState state() const;

  // The lane for requests and datagrams of two ends; lives as long as this. `hash` here and below is
  // lane_hash() of the ends, the requester first.
  DialledLane& dialled(std::uint64_t hash) const { return *dialled_[hash % dialled_.size()]; }
  void send(std::uint64_t hash, SegmentId segment, const verbs::Response& response,
            const guestmem::SpanList& payload, Instant now);
  void send(std::uint64_t hash, SegmentId segment, const verbs::Datagram& datagram,
            const guestmem::SpanList& payload, Instant now);

  void turn(Instant now);
  void on_time(Instant now);
  Instant next_deadline() const;

 private:
  void bury_lanes(Instant now);
  void note(const std::string& trouble, Instant now);

  TcpShared& shared_;
  const HostId id_;
  std::optional<TcpPeer> peer_;
  std::string denied_;
  bool dialling_ = false;
  std::vector<std::unique_ptr<DialledLane>> dialled_;
  std::vector<std::unique_ptr<AcceptedLane>> accepted_;  // by the peer's lane; null: none
  std::vector<std::unique_ptr<AcceptedLane>> leaving_;   // closed, destroyed in the next turn
  bool told_up_ = false;
  DialledLane::News untold_;  // a turn without memory ended before
  std::string noted_;         // the last trouble in the log
  log::LogLimiter limiter_{8, std::chrono::seconds(10)};
};

}  // namespace pvrdma::transport::tcp
