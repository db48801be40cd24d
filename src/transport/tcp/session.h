// Session: one connection that a peer dialled. Carries its requests and datagrams in and the responses out.
//
// Until its hello it belongs to nobody: a Porter decides whether the peer comes in, and as whom.
//
// Thread: shard-owned.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/ip_address.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/context.h"

namespace pvrdma::transport::tcp {

class Session final : private Connection::User {
 public:
  class Porter {
   public:
    virtual ~Porter() = default;
    // Admits, refuses or keeps the session; does not destroy it.
    virtual void on_hello(Session& session, const Hello& hello, Instant now) = 0;
  };

  // `context` and `porter` are borrowed and outlive this.
  Session(Context& context, Porter& porter, std::unique_ptr<Stream> stream, const IpAddress& from);

  Connection& connection() { return connection_; }
  const Connection& connection() const { return connection_; }
  const IpAddress& from() const { return from_; }
  std::uint16_t lane() const { return lane_; }

  // Lets the peer in as `peer`.
  void admit(HostId peer, const Hello& hello, Instant now);

 private:
  void on_secured(Instant /*now*/) override {}
  void on_greeting(const Frame& frame, Instant now) override;
  void on_drained() override {}

  Context& context_;
  Porter& porter_;
  const IpAddress from_;
  std::uint16_t lane_ = 0;
  Connection connection_;
};

}  // namespace pvrdma::transport::tcp
