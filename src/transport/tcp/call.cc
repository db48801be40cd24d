#include "transport/tcp/call.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <system_error>
#include <utility>
#include <variant>

#include "transport/tcp/frame_socket.h"
#include "transport/tcp/plain_stream.h"
#include "transport/tcp/sockets.h"
#include "transport/tcp/tls_stream.h"
#include "transport/wire/format.h"

namespace pvrdma::transport::tcp {
namespace {

using std::chrono::milliseconds;

// Waits until the descriptor is ready for one of `events`.
Result<void> wait_for(int fd, short events, Instant until) {
  while (true) {
    const auto left = std::chrono::duration_cast<milliseconds>(until - Instant::now()).count();
    pollfd state{fd, events, 0};
    const int ready = ::poll(&state, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail(errno, std::generic_category().message(errno));
    if (ready == 0 && left <= 0) return fail(ErrorKind::kUnavailable, ETIMEDOUT, "no answer in time");
  }
}

}  // namespace

Result<std::unique_ptr<Call>> Call::dial(const std::string& host_name, const IpAddress& from,
                                         const TcpPeer& peer, const std::string& congestion_control,
                                         const tls::Context* tls, Instant until) {
  const auto refuse = [&peer](Error why) {
    return Failure(std::move(why).in(
        fmt::format("host {} at {} cannot be called", peer.name, peer.address.to_string())));
  };
  auto socket = begin_connect(from, peer.address, peer.port, congestion_control);
  if (!socket) return refuse(socket.error());
  if (const auto connected = wait_for(socket->get(), POLLOUT, until); !connected)
    return refuse(connected.error());
  int code = 0;
  socklen_t length = sizeof(code);
  if (::getsockopt(socket->get(), SOL_SOCKET, SO_ERROR, &code, &length) != 0) code = errno;
  if (code != 0) return refuse({.code = code, .message = std::generic_category().message(code)});
  std::unique_ptr<Stream> stream;
  if (tls != nullptr) {
    auto secure = tls->client(*std::move(socket));
    if (!secure) return refuse(secure.error());
    stream = make_tls_stream(*std::move(secure));
  } else {
    stream = make_plain_stream(*std::move(socket));
  }
  auto call = std::make_unique<Call>(std::move(stream), peer.name);
  if (const auto done = call->shake_hands(until); !done) return refuse(done.error());
  if (const auto done = call->greet(host_name, until); !done) return refuse(done.error());
  return call;
}

Call::Call(std::unique_ptr<Stream> stream, std::string peer)
    : stream_(std::move(stream)), peer_(std::move(peer)) {
  const auto set = [this](int level, int option, int value) {
    static_cast<void>(::setsockopt(stream_->fd(), level, option, &value, sizeof(value)));
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 2);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

Result<void> Call::shake_hands(Instant until) {
  while (true) {
    switch (stream_->handshake()) {
      case Stream::Handshake::kDone:
        if (stream_->peer_is(peer_)) return {};
        return fail(EACCES,
                    fmt::format("the certificate there is for {}", fmt::join(stream_->peer_names(), ", ")));
      case Stream::Handshake::kFailed:
        return fail(EPROTO, fmt::format("TLS: {}", stream_->trouble()));
      case Stream::Handshake::kCut:
        return fail(EAGAIN,
                    "it ended the connection before it said why: it may not know this host's address, its "
                    "ruleset pvrdma may not allow it, or too many connections of this host began at once");
      case Stream::Handshake::kWantRead:
      case Stream::Handshake::kWantWrite:
        if (auto ready = wait(until); !ready) return ready;
    }
  }
}

Result<void> Call::greet(const std::string& host_name, Instant until) {
  wire::Head head;
  const wire::Hello hello{.host = wire::HostName(host_name),
                          .lane = wire::kCallLane,
                          .lanes = 1,
                          .id = wire::HelloId{random_id()}};
  if (auto sent = send(wire::encode(hello, head), until); !sent) return sent;
  // Reads byte by byte, so that no byte after the frame is taken.
  std::array<std::byte, wire::kHeadBytesMax> bytes;
  wire::Frame frame;
  for (std::size_t count = 0; count < bytes.size();) {
    const auto got = receive(std::span(bytes).subspan(count, 1), until);
    if (!got) return Failure(got.error());
    if (*got == 0) return fail(EPIPE, "it ended the connection: its pvrdmad may be an older one");
    ++count;
    const wire::Decoded decoded = wire::decode(std::span(bytes).first(count), frame);
    if (decoded.state == wire::Decoded::State::kNeedMore) continue;
    if (decoded.state == wire::Decoded::State::kBad) break;
    if (const auto* reject = std::get_if<wire::Reject>(&frame.body))
      return fail(reject->reason == wire::RejectReason::kNoRoom ? EAGAIN : EACCES,
                  fmt::format("the host there refused: {}", reject->sentence.view()));
    const auto* welcome = std::get_if<wire::Welcome>(&frame.body);
    if (welcome == nullptr || welcome->id != hello.id) break;
    if (welcome->host.view() == peer_) return {};
    return fail(EACCES, fmt::format("the host there is {}", welcome->host.view()));
  }
  return fail(EPROTO, "the program that answers there is not a pvrdmad");
}

Result<void> Call::wait(Instant until) {
  const auto events = static_cast<short>(POLLIN | (stream_->wants_write() ? POLLOUT : 0));
  return wait_for(stream_->fd(), events, until);
}

Failure Call::ended(Io io) const {
  return fail(ErrorKind::kUnavailable, EPIPE,
              io == Io::kClosed
                  ? fmt::format("host {} ended the connection", peer_)
                  : fmt::format("the connection to host {} broke: {}", peer_, stream_->trouble()));
}

Result<void> Call::send(std::span<const std::byte> bytes, Instant until) {
  while (!bytes.empty()) {
    const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    const Transfer transfer = stream_->write_some({&piece, 1});
    if (transfer.io == Io::kDone) {
      bytes = bytes.subspan(transfer.bytes);
    } else if (transfer.io != Io::kWouldBlock) {
      return ended(transfer.io);
    } else if (auto ready = wait_for(stream_->fd(), POLLOUT, until); !ready) {
      return ready;
    }
  }
  while (true) {
    const Io io = stream_->flush();
    if (io == Io::kDone) break;
    if (io != Io::kWouldBlock) return ended(io);
    if (auto ready = wait_for(stream_->fd(), POLLOUT, until); !ready) return ready;
  }
  stream_->push();
  return {};
}

Result<std::size_t> Call::receive(std::span<std::byte> into, Instant until) {
  while (true) {
    const Transfer transfer = stream_->read_some(into);
    if (transfer.io == Io::kDone) return transfer.bytes;
    if (transfer.io == Io::kClosed) return 0;
    if (transfer.io == Io::kBroken) return ended(transfer.io);
    if (auto ready = wait(until); !ready) return Failure(ready.error());
  }
}

void Call::interrupt() {
  ::shutdown(stream_->fd(), SHUT_RDWR);
}

}  // namespace pvrdma::transport::tcp
