// Local: the path between two adapters of one shard, by memory copy.
//
// It passes each message to the peer's engine unchanged, on the caller's stack. The payload is copied once,
// by the responder, from guest memory to guest memory (guestmem::copy). The path copies, queues and keeps
// nothing. So it loses nothing and always has room. What the peer answers at once has been delivered when
// send_*() returns.
//
// Cost per message: one virtual call, four additions. No allocation, lock, log or system call.
// Thread: shard-owned.
#pragma once

#include "transport/transport.h"

namespace pvrdma::transport {

class Local : public Transport {
 public:
  Local() = default;
  Local(const Local&) = delete;
  Local& operator=(const Local&) = delete;

  PathKind kind() const override { return PathKind::kLocal; }
  const Counters& counters() const override { return counters_; }
  // `place.engine` is borrowed. The path must not be used after it ends.
  void open(const Place& place, const verbs::Connection& connection, Traffic& traffic,
            verbs::PathSlot& slot) override;
  bool send_datagram(const Place& place, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                     Traffic& traffic, Instant now) override;
  bool is_up(HostId /*host*/) const override { return false; }
  void flush(Instant /*now*/) override {}

 private:
  Counters counters_;
};

}  // namespace pvrdma::transport
