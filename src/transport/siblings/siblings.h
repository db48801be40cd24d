// Siblings: the paths between adapters of one host that has several shards. To an adapter of the same shard
// it is Local; to one of another shard, messages go through rings (ring.h, ADR 28).
//
// It never blocks another shard: what has no room waits, as on every path. Its own shard waits for another
// one only in stop(), for the end of one copy.
//
// A path to a sibling sends requests in ascending order. One that does not ascend begins a repetition: what
// the ring still has of the path is revoked first. So no byte is lent twice.
//
// Thread: shard-owned. A path may be closed when the transport has ended.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "shard/loop.h"
#include "transport/local/local.h"
#include "transport/siblings/host_rings.h"
#include "transport/transport.h"

namespace pvrdma::transport::siblings {

class Sibling;

}  // namespace pvrdma::transport::siblings

namespace pvrdma::transport {

class Siblings final : public Local, public shard::Pollable, private shard::FdHandler {
 public:
  // Of the shard `own`, which `loop` runs. The loop and `inbound` are borrowed. Errors: the kernel refuses to
  // watch the bell.
  static Result<std::unique_ptr<Siblings>> create(std::shared_ptr<siblings::HostRings> rings, ShardNumber own,
                                                  shard::Loop& loop, SiblingInbound& inbound);
  ~Siblings() override;

  // Transport.
  const Counters& counters() const override;
  void join(verbs::Engine& engine) override;
  void open(const Place& place, const verbs::Connection& connection, Traffic& traffic,
            verbs::PathSlot& slot) override;
  bool send_datagram(const Place& place, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                     Traffic& traffic, Instant now) override;
  void stop(SegmentId segment, const verbs::Connection& connection) override;
  void stop_all(const verbs::Engine& engine) override;
  void take_back(const verbs::Engine& engine, std::span<const std::byte> memory) override;
  void flush(Instant now) override;

  // The sibling's adapters send again what they have sent to all adapters of this shard. Allocates nothing.
  void have_all_repeated(ShardNumber sibling);

  // Pollable.
  bool run(Instant now) override;
  void on_time(Instant /*now*/) override {}
  Instant next_deadline() const override;
  bool polls() const override { return false; }
  bool may_sleep() override;
  std::string what() const override { return "the rings of the other shards"; }

  struct RingCounters {
    std::uint64_t revoked = 0;
    std::uint64_t revoke_waits = 0;
    std::uint64_t lost = 0;  // messages for which there was no room, and those that no adapter may take
  };
  RingCounters ring_counters() const;

 private:
  struct Core;
  class SiblingPath;

  Siblings(std::shared_ptr<Core> core, shard::Loop& loop, SiblingInbound& inbound);
  // A turn's work for one sibling. Returns whether there was any.
  bool serve(siblings::Sibling& sibling, Instant now);
  void deliver(siblings::Sibling& sibling, const siblings::Slot& slot, Instant now);
  void on_fd_ready(int fd, shard::Readiness ready) override;
  void wake();

  const std::shared_ptr<Core> core_;  // shared with the paths
  shard::Loop& loop_;
  SiblingInbound& inbound_;
  std::size_t first_ = 0;    // of the next turn
  mutable Counters sum_;     // what counters() returned last
  bool lies_ = false;        // the shard sleeps or is about to
  bool is_watched_ = false;  // the bell
};

}  // namespace pvrdma::transport
