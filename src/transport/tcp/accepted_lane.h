// AcceptedLane: one lane that a peer dialled. It takes the peer's requests and datagrams, and sends the
// responses.
//
// Until its hello it belongs to no peer: a Porter decides whether the peer comes in, and as which host.
//
// Thread: shard-owned.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/ip_address.h"
#include "transport/tcp/frame_socket.h"
#include "transport/tcp/tcp_shared.h"

namespace pvrdma::transport::tcp {

class AcceptedLane final : private FrameSocket::User {
 public:
  class Porter {
   public:
    virtual ~Porter() = default;
    // Admits, refuses or keeps the lane. Must not destroy it.
    virtual void on_hello(AcceptedLane& lane, const wire::Hello& hello, Instant now) = 0;
  };

  // `shared` and `porter` are borrowed and outlive this.
  AcceptedLane(TcpShared& shared, Porter& porter, std::unique_ptr<Stream> stream, const IpAddress& from);

  FrameSocket& socket() { return socket_; }
  const FrameSocket& socket() const { return socket_; }
  const IpAddress& from() const { return from_; }
  std::uint16_t index() const { return index_; }

  // Lets the dialler in as `peer`.
  void admit(HostId peer, const wire::Hello& hello, Instant now);
  // Like admit(), if the peer wants a call instead of a lane: FrameSocket::release().
  std::unique_ptr<Stream> release(const wire::Hello& hello, Instant now);

 private:
  void on_secured(Instant /*now*/) override {}
  void on_greeting(const wire::Frame& frame, Instant now) override;
  void on_drained() override {}

  TcpShared& shared_;
  Porter& porter_;
  const IpAddress from_;
  std::uint16_t index_ = 0;
  FrameSocket socket_;
};

}  // namespace pvrdma::transport::tcp
