// Roce: the path out of the cluster, to machines with RDMA NICs and to Linux's rxe: RoCE v1 and v2, spoken
// over links, which carry the Ethernet frames of one segment each.
//
// What arrives is checked in this order: lengths, headers, ICRC (roce/frame.h), whether the segment's ports
// speak to such a peer (NativeInbound), which connection it is of, and only then what it asks for. Each frame
// that is dropped is counted by its reason; none is answered but as the order of packets demands.
//
// Connections keep soft state only (roce/connection_state.h), in a pool that is taken whole at the start:
// when it is empty, a path is one to nowhere. What they owe to their peers leaves in turns, some frames of
// each.
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
  std::size_t connections_max = 4096;  // about 1 KiB each
};

// Frames that were dropped, and why.
struct RoceErrors {
  std::array<std::uint64_t, pvrdma::roce::kDropReasons> bad_frames{};  // by roce::DropReason
  std::array<std::uint64_t, kEntries> refused{};                       // by Entry
  std::uint64_t port_down = 0;          // for an adapter that is off, or whose link is down
  std::uint64_t no_qp = 0;              // for no connection over this path
  std::uint64_t bad_address = 0;        // of a connection, between other addresses than its own
  std::uint64_t datagrams_dropped = 0;  // on their way out: the link was full
  std::uint64_t no_connection = 0;      // messages of connections for which the pool had no place
};

class Roce final : public Transport, public shard::Pollable {
 public:
  // `inbound` is borrowed and outlives this.
  Roce(NativeInbound& inbound, const RoceOptions& options);
  ~Roce() override;  // paths that are still open are not used any more
  Roce(const Roce&) = delete;
  Roce& operator=(const Roce&) = delete;

  // Adds the link that `open` makes, which gets who is to be given its frames. Returns the link's number,
  // from 0. Errors: those of `open`.
  Result<std::size_t> add_link(
      const std::function<Result<std::unique_ptr<roce::Link>>(roce::FrameHandler&)>& open);
  // Which segment a link leads to from now on; none: its frames are dropped. One for each segment.
  void assign(std::size_t link, std::optional<SegmentId> segment);
  // All that the engine's adapter sends passes the filter from now on; null: none. Borrowed.
  void set_filter(const verbs::Engine& sender, pvrdma::roce::FrameFilter* filter);
  // Why the link that leads to the segment is down; empty: it is up, or none leads there.
  std::string link_trouble(SegmentId segment) const;
  // Of all links together.
  roce::LinkCounters link_counters() const;

  const RoceErrors& errors() const { return errors_; }
  const pvrdma::roce::Counters& packets() const { return packets_; }

  // Transport.
  PathKind kind() const override { return PathKind::kRoce; }
  const Counters& counters() const override { return counters_; }
  void open(const Place& place, const verbs::Connection& connection, Traffic& traffic,
            verbs::PathSlot& slot) override;
  void send_datagram(const Place& place, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
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

  Segment* find(SegmentId segment) const;  // null: no link leads there
  pvrdma::roce::FrameSink& way_out(const verbs::Engine* sender, roce::Link& link) const;

  struct Filtered {
    const verbs::Engine* sender;  // borrowed, as the filter
    pvrdma::roce::FrameFilter* filter;
  };

  NativeInbound& inbound_;
  RoceErrors errors_;
  Counters counters_;
  pvrdma::roce::Counters packets_;
  // Shared with the paths: they may be closed after this is gone.
  const std::shared_ptr<roce::ConnectionPool> pool_;
  std::vector<std::unique_ptr<Segment>> segments_;  // by link
  std::vector<Filtered> filtered_;                  // usually none
};

}  // namespace pvrdma::transport
