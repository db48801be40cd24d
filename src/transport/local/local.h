// Local: the path between two adapters of one shard, by memory copy.
//
// It hands each message to the peer's engine as it is, on the caller's stack. The one copy of the payload,
// guest memory to guest memory, is the responder's (guestmem::copy): nothing is copied, queued or kept here,
// so nothing is ever lost either, and whatever the peer answers has been delivered when send_*() returns.
//
// Cost per message: one virtual call, two additions. No allocation, lock, log or system call.
// Thread: shard-owned.
#pragma once

#include "transport/transport.h"

namespace pvrdma::transport {

class Local final : public Transport {
 public:
  Local() = default;
  Local(const Local&) = delete;
  Local& operator=(const Local&) = delete;

  std::string_view name() const override { return "local"; }
  const Counters& counters() const override { return counters_; }
  std::unique_ptr<Channel> open(verbs::Engine& peer) override;

 private:
  Counters counters_;
};

}  // namespace pvrdma::transport
