// Roce: the path out of the cluster, to machines with RDMA NICs and to Linux's rxe. It speaks RoCE v1 and v2
// over links; each link carries the Ethernet frames of one segment.
//
// An arriving frame is checked in this order: lengths, headers, ICRC (roce/frame.h), whether the segment's
// ports may talk to the sender (NativeInbound), which connection it belongs to, and only then what it
// requests. Each dropped frame is counted by its reason. A frame is answered only if the order of packets
// requires it.
//
// Connections keep soft state only (roce/connection_state.h), in a pool that is allocated at the start and
// shared by the budgets of the adapters. A QP that finds its budget used up when it connects is refused
// (Engine::modify_qp). One whose path comes to lead here later gets a path that drops everything. Pending
// answers are sent in turns, some frames of each connection in each turn.
//
// Thread: shard-owned; links are added before the loop runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "base/time.h"
#include "roce/counters.h"
#include "roce/drop_reason.h"
#include "roce/frame_sink.h"
#include "shard/loop.h"
#include "transport/roce/link.h"
#include "transport/transport.h"

namespace pvrdma::transport {

namespace roce {
class ConnectionPool;
}

struct RoceOptions {
  std::size_t connections_max = 4096;  // each takes about 1 KiB
};

// Dropped frames, by reason.
struct RoceErrors {
  std::array<std::uint64_t, pvrdma::roce::kDropReasons> bad_frames{};  // by roce::DropReason
  std::array<std::uint64_t, kEntries> refused{};                       // by Entry
  std::uint64_t foreign_vlan = 0;       // the tag is of another VLAN than the link's
  std::uint64_t port_down = 0;          // the destination's adapter is off, or its link is down
  std::uint64_t no_qp = 0;              // no connection of this path belongs to the QP
  std::uint64_t bad_address = 0;        // the addresses are not those of the connection
  std::uint64_t datagrams_dropped = 0;  // outbound: the link was full
  std::uint64_t no_connection = 0;      // messages of connections for which a budget or the pool was used up
  std::uint64_t path_mtu_above_link = 0;  // connections whose longest packets the link does not carry
};

class Roce final : public Transport, public shard::Pollable {
 public:
  // `inbound` is borrowed and outlives this.
  Roce(NativeInbound& inbound, const RoceOptions& options);
  ~Roce() override;  // paths that are still open must not be used any more
  Roce(const Roce&) = delete;
  Roce& operator=(const Roce&) = delete;

  // Adds the link that `open` makes. `open` is given the handler of the link's frames. Returns the link's
  // number, starting at 0. Errors: those of `open`.
  Result<std::size_t> add_link(
      const std::function<Result<std::unique_ptr<roce::Link>>(roce::FrameHandler&)>& open);
  // Sets the segment that a link leads to; empty: frames are dropped. A segment has at most one link.
  void assign(std::size_t link, std::optional<SegmentId> segment);
  // Makes everything that the engine's adapter sends pass the filter; null: removes the filter. Borrowed.
  void set_filter(const verbs::Engine& sender, pvrdma::roce::FrameFilter* filter);
  // Why the segment's link is down; empty: it is up, or the segment has no link.
  std::string link_trouble(SegmentId segment) const;
  // The sums over all links.
  roce::LinkCounters link_counters() const;

  const RoceErrors& errors() const { return errors_; }
  const pvrdma::roce::Counters& packets() const { return packets_; }

  // Transport.
  PathKind kind() const override { return PathKind::kRoce; }
  const Counters& counters() const override { return counters_; }
  void open(const Place& place, const verbs::Connection& connection, Traffic& traffic,
            verbs::PathSlot& slot) override;
  bool send_datagram(const Place& place, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                     Traffic& traffic, Instant now) override;
  bool is_up(HostId /*host*/) const override { return false; }
  bool leaves(SegmentId segment) const override { return find(segment) != nullptr; }
  void flush(Instant now) override;

  // Pollable.
  bool run(Instant now) override;
  void on_time(Instant /*now*/) override {}
  Instant next_deadline() const override { return Instant::never(); }
  bool polls() const override { return false; }
  std::string what() const override { return "the RoCE transport"; }

 private:
  class Segment;
  class RocePath;

  // Why the longest packets of the connection do not get through the link: one clause. Empty: they do.
  static std::string mtu_trouble(const verbs::Engine& sender, const verbs::Connection& connection,
                                 const roce::Link& link);
  void note_mtu(const Place& place, const verbs::Connection& connection, const roce::Link& link);

  Segment* find(SegmentId segment) const;  // null: the segment has no link
  pvrdma::roce::FrameSink& way_out(const verbs::Engine* sender, roce::Link& link) const;

  struct Filtered {
    const verbs::Engine* sender;  // borrowed, as the filter
    pvrdma::roce::FrameFilter* filter;
  };

  NativeInbound& inbound_;
  RoceErrors errors_;
  Counters counters_;
  pvrdma::roce::Counters packets_;
  // Shared with the paths, which may be closed after this is destroyed.
  const std::shared_ptr<roce::ConnectionPool> pool_;
  std::vector<std::unique_ptr<Segment>> segments_;  // by link
  std::vector<Filtered> filtered_;                  // usually empty
  std::string mtu_note_;                            // to be logged with the next flush()
  log::LogLimiter mtu_log_;
};

}  // namespace pvrdma::transport
