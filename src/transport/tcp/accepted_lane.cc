#include "transport/tcp/accepted_lane.h"

#include <utility>

namespace pvrdma::transport::tcp {

AcceptedLane::AcceptedLane(TcpShared& shared, Porter& porter, std::unique_ptr<Stream> stream,
                           const IpAddress& from)
    : shared_(shared),
      porter_(porter),
      from_(from),
      socket_(shared, *this, FrameSocket::Role::kAcceptor, std::move(stream)) {}

void AcceptedLane::on_greeting(const wire::Frame& frame, Instant now) {
  if (const auto* hello = std::get_if<wire::Hello>(&frame.body)) porter_.on_hello(*this, *hello, now);
}

void AcceptedLane::admit(HostId peer, const wire::Hello& hello, Instant now) {
  index_ = hello.lane;
  socket_.greet(wire::Welcome{.host = wire::HostName(shared_.options.host_name), .id = hello.id}, now);
  socket_.establish(peer, now);
}

std::unique_ptr<Stream> AcceptedLane::release(const wire::Hello& hello, Instant now) {
  socket_.greet(wire::Welcome{.host = wire::HostName(shared_.options.host_name), .id = hello.id}, now);
  return socket_.release();
}

}  // namespace pvrdma::transport::tcp
