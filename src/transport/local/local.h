// Local: the path between two adapters of one shard, by memory copy.
//
// It hands each message to the peer's engine as it is, on the caller's stack. The one copy of the payload,
// guest memory to guest memory, is the responder's (guestmem::copy): nothing is copied, queued or kept here,
// so nothing is ever lost either, there is always room, and whatever the peer answers has been delivered when
// send_*() returns.
//
// Cost per message: one virtual call, four additions. No allocation, lock, log or system call.
// Thread: shard-owned.
#pragma once

#include "transport/transport.h"

namespace pvrdma::transport {

class Local final : public Transport {
 public:
  Local() = default;
  Local(const Local&) = delete;
  Local& operator=(const Local&) = delete;

  PathKind kind() const override { return PathKind::kLocal; }
  const Counters& counters() const override { return counters_; }
  // `place.engine` outlives the path, or the path is not used any more.
  void open(const Place& place, const verbs::Connection& connection, Traffic& traffic,
            verbs::PathSlot& slot) override;
  void send_datagram(const Place& place, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                     Traffic& traffic, Instant now) override;
  bool is_up(HostId /*host*/) const override { return false; }
  void flush(Instant /*now*/) override {}

 private:
  Counters counters_;
};

}  // namespace pvrdma::transport
