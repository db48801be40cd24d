// LaneNetwork: the lanes between all hosts of a simulated cluster, and each host's end of them as a transport
// of kind tcp (HostTransport). As in transport/tcp, each host dials lanes to each peer and sends its requests
// there; a broken lane is dialled again while both ends want it; the hosts are told of changes in the same
// order. As there, a "host" is a shard of a host (ADR 31): there are no lanes between shards of one host.
//
// Thread: the world's.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "sim/lane.h"
#include "transport/transport.h"

namespace pvrdma::sim {

class LaneNetwork {
 public:
  // `shards`: of each host.
  LaneNetwork(std::uint64_t seed, std::uint32_t hosts, std::uint32_t shards = 1);

  // The id of a shard, counted over all hosts. Never 0.
  static transport::HostId id_of(std::uint32_t index) { return transport::HostId{index + 1}; }

  LaneWeather weather;

  // attach(): a host starts. `wake` is called before each call of `inbound`. detach(): it dies without
  // closing its lanes.
  void attach(
      transport::HostId host, transport::Inbound& inbound, std::function<void()> wake = [] {});
  void detach(transport::HostId host, Instant now);
  // The peers that the host dials and accepts. Lanes to other hosts end at once.
  void configure(transport::HostId host, std::set<transport::HostId> peers, Instant now);

  // Breaks some or all lanes between two hosts for about `away`.
  void break_lanes(transport::HostId a, transport::HostId b, bool all, Duration away, Instant now);
  // Nothing passes between the two hosts until `until`.
  void cut(transport::HostId a, transport::HostId b, Instant until, Instant now);
  bool is_cut(transport::HostId a, transport::HostId b, Instant now) const;
  // Lets `liar` send a request that another host's VM might send next, in that VM's name. False: there was
  // nothing to imitate.
  bool lie(transport::HostId liar, Instant now);
  // Called when GIDs change hosts: an imitation of an earlier request might now come from the right host.
  void forget_overheard() { overheard_.clear(); }
  // Messages in flight between the two hosts do not arrive before `until`.
  void stall(transport::HostId a, transport::HostId b, Instant until);

  // --- For HostTransport. `hash` chooses the lane. ---

  bool is_up(transport::HostId from, transport::HostId to) const;
  bool has_room(transport::HostId from, transport::HostId to, std::uint64_t hash);
  void send_out(transport::HostId from, transport::HostId to, std::uint64_t hash,
                transport::SegmentId segment, const LaneStream::Content& content,
                const guestmem::SpanList& payload, Instant now);
  void send_back(transport::HostId from, transport::HostId to, std::uint64_t hash,
                 transport::SegmentId segment, const verbs::Response& response,
                 const guestmem::SpanList& payload, Instant now);

  // --- Time. ---

  Instant next_event() const;
  // Delivers the messages that arrive by `now`, dials lanes, and tells the hosts of changes. On an empty
  // stack.
  void deliver(Instant now);

  std::uint64_t lost() const { return lost_; }

 private:
  static constexpr std::uint32_t kLanes = 2;  // from each host to each other host
  static constexpr std::size_t kBusyBytes = 64 * 1024;
  static constexpr std::size_t kPauseBytes = 512 * 1024;

  struct Host {
    transport::Inbound* inbound = nullptr;  // borrowed; null: dead
    std::function<void()> wake = {};
    std::set<transport::HostId> peers;
    std::map<transport::HostId, bool> told_up;
  };
  struct News {
    bool ready = false;
    bool restored = false;
  };

  Host& at(transport::HostId host) { return hosts_.at(host); }
  // Of a host that lives. It is awake.
  transport::Inbound& inbound(transport::HostId host);
  Lane& lane(transport::HostId from, transport::HostId to, std::uint64_t hash);
  bool may_dial(const Lane& lane) const;
  // When the lane will be dialled. Never: it must not be, or need not be.
  Instant dials_at(const Lane& lane) const;
  Instant next_event(const Lane& lane) const;
  void break_lane(Lane& lane, Duration away, Instant now);
  void end_at(Lane& lane, transport::HostId host, Instant now);
  void turn(Lane& lane, News& news, Instant now);
  bool deliver(Lane& lane, Instant now);
  void tell(Instant now);
  Instant arrival(Instant now) { return now + random_.up_to(weather.delay_max); }
  Duration notice() { return random_.up_to(std::chrono::milliseconds(2)); }

  Random random_;
  std::map<transport::HostId, Host> hosts_;
  std::vector<Lane> lanes_;
  std::map<std::pair<transport::HostId, transport::HostId>, News> news_;  // by dialler and peer
  std::map<std::pair<transport::HostId, transport::HostId>, Instant> cuts_;
  // The last atomic request to each host, with its sender.
  struct Overheard {
    transport::HostId from;
    transport::SegmentId segment;
    verbs::Request request;
  };
  std::map<transport::HostId, Overheard> overheard_;
  std::uint64_t lost_ = 0;
};

class HostTransport final : public transport::Transport {
 public:
  HostTransport(transport::HostId self, LaneNetwork& network) : self_(self), network_(network) {}

  transport::PathKind kind() const override { return transport::PathKind::kTcp; }
  const transport::Counters& counters() const override { return counters_; }
  void open(const transport::Place& place, const verbs::Connection& connection, transport::Traffic& traffic,
            verbs::PathSlot& slot) override;
  bool send_datagram(const transport::Place& place, const verbs::Datagram& datagram,
                     const guestmem::SpanList& payload, transport::Traffic& traffic, Instant now) override;
  bool is_up(transport::HostId host) const override { return network_.is_up(self_, host); }
  void flush(Instant /*now*/) override {}

 private:
  class LanePath;

  const transport::HostId self_;
  LaneNetwork& network_;  // borrowed
  transport::Counters counters_;
};

}  // namespace pvrdma::sim
