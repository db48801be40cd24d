// HostLanes: all lanes between this shard and a shard of another host, dialled and accepted. It chooses the
// lane of each message, and tells Inbound about the host's state.
//
// Between the first shards of two hosts, lanes are always dialled: they show whether the host runs. Other
// lanes are dialled when a path or a datagram needs them, and rest when nothing has needed them for a minute.
//
// Made when its peer is first mentioned, and kept until Tcp is destroyed, so that paths can hold it.
//
// Thread: shard-owned.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "transport/demand.h"
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
  // Empty: not a peer.
  const std::optional<TcpPeer>& peer() const { return peer_; }

  // Why nothing may connect to the peer; empty if it may.
  const std::string& denied() const { return denied_; }

  // Keeps existing connections if the peer is unchanged and `anew` is false. `denied` says why nothing may
  // connect; empty if connections are allowed.
  void configure(const std::optional<TcpPeer>& peer, std::string_view denied, bool anew, Instant now);
  void close(wire::GoodbyeReason reason, std::string_view sentence, Instant now);

  // adopt() takes over an admitted lane and closes an older one with the same number. The host runs, so those
  // dialled lanes that pause dial at once. make_room() allocates what adopt() needs, so adopt() allocates
  // nothing else.
  void make_room(std::uint16_t lanes);
  void adopt(std::unique_ptr<AcceptedLane> lane, std::uint16_t lanes, Instant now);

  // This object. As long as somebody has the pointer, the lanes are needed (Demand).
  std::shared_ptr<HostLanes> use(Instant now);

  bool is_up() const;
  bool is_stopping() const;  // Transport::is_stopping()
  bool is_opening() const;   // Transport::is_opening()
  // Why messages do not reach the host now: one clause. Empty if they do, or if the lanes rest.
  std::string trouble() const;
  TcpPeerState state() const;

  // The lane for requests and datagrams between two ends; lives as long as this. `hash`, here and below, is
  // lane_hash() of the ends, the requester first.
  DialledLane& dialled(std::uint64_t hash) const { return *dialled_[hash % dialled_.size()]; }
  void send(std::uint64_t hash, SegmentId segment, const verbs::Response& response,
            const guestmem::SpanList& payload, Instant now);
  // Returns false if the lane is full now: Inbound::on_ready() follows.
  bool send(std::uint64_t hash, SegmentId segment, const verbs::Datagram& datagram,
            const guestmem::SpanList& payload, Instant now);

  void turn(Instant now);
  void on_time(Instant now);
  Instant next_deadline() const;

 private:
  bool may_dial() const { return peer_ && denied_.empty(); }
  // Whether both ends are the first shards of their hosts.
  bool leads_to_first() const;
  void ask_to_dial();
  bool is_needed(Instant now) const;
  void dial_if_needed(Instant now);
  void rest_if_idle(Instant now);
  void report_connected() const;
  void bury_lanes(Instant now);
  void note(const std::string& trouble, Instant now);
  bool is_quiet() const;
  void tell_if_quiet(Instant now);

  TcpShared& shared_;
  const HostId id_;
  std::optional<TcpPeer> peer_;
  std::string peer_name_;  // for log lines: "host esx2"; of the last peer if there is none now
  std::string denied_;
  bool dialling_ = false;  // if it is false and may_dial() is true, the lanes rest
  Demand demand_;
  std::vector<std::unique_ptr<DialledLane>> dialled_;
  std::vector<std::unique_ptr<AcceptedLane>> accepted_;  // by the peer's lane number; may be null
  std::vector<std::unique_ptr<AcceptedLane>> leaving_;   // closed; destroyed in the next turn
  bool told_up_ = false;
  bool told_quiet_ = false;
  DialledLane::News untold_;  // news that a turn lost when it ended without memory
  std::string noted_;         // the last trouble that was logged
  log::LogLimiter limiter_{8, std::chrono::seconds(10)};
};

}  // namespace pvrdma::transport::tcp
