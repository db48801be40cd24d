// Call: a connection between the daemons of two hosts that is not a lane. It carries bytes of its own, but
// uses the same listener, rules and certificates. Calls block, so only threads that may block use them.
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
  // Dials as `host_name`, from the address `from`. `congestion_control` is an algorithm by the kernel's name.
  // Blocks until `until` at most. `tls` null: plain. Errors: one sentence that names the peer and the reason;
  // EAGAIN: the peer had no room for another connection, or ended it without telling why.
  static Result<std::unique_ptr<Call>> dial(const std::string& host_name, const IpAddress& from,
                                            const TcpPeer& peer, const std::string& congestion_control,
                                            const tls::Context* tls, Instant until);
  // Makes a call of a stream from TakeCall. From now on, a host that has died ends the call after 5 seconds
  // without output. Output has a longer time limit, because a living host may take nothing for a while.
  Call(std::unique_ptr<Stream> stream, std::string peer);

  // The other host, whose identity is proven.
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
