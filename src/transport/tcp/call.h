// Call: a connection between the daemons of two hosts that is no lane: bytes of their own, by the same
// listener, rules and certificates. Blocking, so for threads that may.
//
// Thread: one at a time, never the shard; interrupt() any.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/byte_channel.h"
#include "base/ip_address.h"
#include "base/result.h"
#include "base/time.h"
#include "tls/context.h"
#include "transport/tcp/stream.h"
#include "transport/tcp/tcp.h"

namespace pvrdma::transport::tcp {

class Call final : public ByteChannel {
 public:
  // As `host_name`, from its address; `congestion_control` as the kernel names it. Blocks for kHandshakeTime
  // at most. `tls` null: plain. Errors: one sentence that names the peer and says why not.
  static Result<std::unique_ptr<Call>> dial(const std::string& host_name, const IpAddress& from,
                                            const TcpPeer& peer, const std::string& congestion_control,
                                            const tls::Context* tls);
  // Of a stream that TakeCall was given. From now on a host that has died ends it after 5 seconds in which
  // nothing was to be sent; what is to be sent has its own patience, as a host that lives may take nothing.
  Call(std::unique_ptr<Stream> stream, std::string peer);

  // The other host, which has proven to be it.
  const std::string& peer() const { return peer_; }

  Result<void> send(std::span<const std::byte> bytes, Instant until) override;
  Result<std::size_t> receive(std::span<std::byte> into, Instant until) override;
  void interrupt() override;

 private:
  Result<void> greet(const std::string& host_name, Instant until);
  Result<void> wait(Instant until);
  Result<void> shake_hands(Instant until);
  Failure ended(Io io) const;

  const std::unique_ptr<Stream> stream_;
  const std::string peer_;
};

}  // namespace pvrdma::transport::tcp
