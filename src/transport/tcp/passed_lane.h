// PassedLane: a connection whose Hello wants another shard of this host, on its way there from shard 0.
//
// Shard 0 has checked its address, name and certificate. The other shard decides whether it enters. If the
// connection gets lost on the way (no such shard, a full mailbox, a daemon that stops), the destructor sends
// Reject, and the dialler dials again.
//
// Thread: owned by one thread at a time.
#pragma once

#include <memory>
#include <utility>

#include "base/ip_address.h"
#include "base/time.h"
#include "transport/tcp/stream.h"
#include "transport/wire/format.h"

namespace pvrdma::transport::tcp {

class PassedLane final {
 public:
  // `began` is when its handshake began. `stream` is not null.
  PassedLane(std::unique_ptr<Stream> stream, const IpAddress& from, const wire::Hello& hello, Instant began)
      : stream_(std::move(stream)), from_(from), hello_(hello), began_(began) {}
  ~PassedLane();
  PassedLane(const PassedLane&) = delete;
  PassedLane& operator=(const PassedLane&) = delete;

  const IpAddress& from() const { return from_; }
  const wire::Hello& hello() const { return hello_; }
  Instant began() const { return began_; }
  // Called once. The caller answers the Hello.
  std::unique_ptr<Stream> take_stream() { return std::move(stream_); }

 private:
  std::unique_ptr<Stream> stream_;
  const IpAddress from_;
  const wire::Hello hello_;
  const Instant began_;
};

}  // namespace pvrdma::transport::tcp
