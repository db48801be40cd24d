#include "fuzz/lanes.h"

#include <algorithm>
#include <cstring>
#include <sys/socket.h>
#include <utility>

#include "base/check.h"

namespace pvrdma::fuzz {

using transport::tcp::Io;
using transport::tcp::Transfer;

MemoryStream::MemoryStream() {
  std::array<int, 2> fds{};
  PVRDMA_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()) == 0,
               "socketpair");
  sockets_ = {Fd(fds[0]), Fd(fds[1])};
}

Transfer MemoryStream::read_some(std::span<std::byte> into) {
  const std::size_t size = std::min(into.size(), in.size());
  if (size == 0) return {Io::kWouldBlock, 0};
  std::memcpy(into.data(), in.data(), size);
  in.erase(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(size));
  return {Io::kDone, size};
}

Transfer MemoryStream::ready(std::size_t /*wanted*/) {
  return {in.empty() ? Io::kWouldBlock : Io::kDone, in.size()};
}

std::size_t MemoryStream::read_into(const guestmem::SpanList& into) {
  guestmem::SpanList from;
  PVRDMA_CHECK(from.append(in.data(), in.size()), "one piece");
  const auto moved = static_cast<std::size_t>(guestmem::copy(into, from, into.bytes()));
  in.erase(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(moved));
  return moved;
}

Transfer MemoryStream::write_some(std::span<const iovec> pieces) {
  std::size_t taken = 0;
  for (const iovec& piece : pieces) {
    const std::size_t size = std::min(piece.iov_len, kRoomBytes - std::min(kRoomBytes, out.size()));
    const auto* const data = static_cast<const std::byte*>(piece.iov_base);
    out.insert(out.end(), data, data + size);
    taken += size;
  }
  return {taken == 0 ? Io::kWouldBlock : Io::kDone, taken};
}

FuzzLane::End::End(LaneHost& its_host, LaneHost& its_peer, FrameSocket::Role its_role)
    : host(its_host), peer(its_peer), role(its_role) {
  auto made = std::make_unique<MemoryStream>();
  stream = made.get();
  socket.emplace(host.shared, *this, role, std::move(made));
}

void FuzzLane::End::on_secured(Instant now) {
  if (role != FrameSocket::Role::kDialler) return;
  socket->greet(transport::wire::Hello{.host = transport::wire::HostName(host.shared.options.host_name)},
                now);
}

void FuzzLane::End::on_greeting(const transport::wire::Frame& frame, Instant now) {
  if (role == FrameSocket::Role::kDialler) {
    if (!std::holds_alternative<transport::wire::Welcome>(frame.body)) return;
  } else {
    socket->greet(transport::wire::Welcome{.host = transport::wire::HostName(host.shared.options.host_name)},
                  now);
  }
  socket->establish(peer.id, now);
}

// Reads the bytes that have arrived. True: something changed.
bool FuzzLane::End::go_on(Instant now) {
  if (socket->broken()) return false;
  if (now >= socket->next_deadline()) socket->on_time(now);
  const std::size_t before = stream->in.size();
  host.shared.unfinished.clear();
  socket->go_on(now);
  transport::tcp::flush_all(host.shared, now);
  return stream->in.size() != before;
}

FuzzLane::Connection::Connection(LaneHost& dialling, LaneHost& accepting)
    : dialler(dialling, accepting, FrameSocket::Role::kDialler),
      acceptor(accepting, dialling, FrameSocket::Role::kAcceptor) {}

FuzzLane::FuzzLane(LaneHost& dialler, LaneHost& acceptor, Between& forth, Between& back)
    : dialler_(dialler), acceptor_(acceptor), forth_(forth), back_(back) {}

bool FuzzLane::up() const {
  return connection_ && connection_->dialler.socket->is_up() && connection_->acceptor.socket->is_up();
}

void FuzzLane::dial(Instant now) {
  forth_.begin();
  back_.begin();
  connection_ = std::make_unique<Connection>(dialler_, acceptor_);
  PVRDMA_CHECK(connection_->acceptor.socket->start(now) && connection_->dialler.socket->start(now),
               "descriptors can be watched");
}

bool FuzzLane::pump(Instant now) {
  if (connection_ && (connection_->dialler.socket->broken() || connection_->acceptor.socket->broken() ||
                      forth_.breaks() || back_.breaks())) {
    connection_.reset();
    dialler_.fabric.on_up_changed(acceptor_.id, now);
  }
  if (!connection_) {
    dial(now);
    return true;
  }
  End& dialler = connection_->dialler;
  End& acceptor = connection_->acceptor;
  const bool moved = !dialler.stream->out.empty() || !acceptor.stream->out.empty();
  forth_.pass(dialler.stream->out, acceptor.stream->in);
  back_.pass(acceptor.stream->out, dialler.stream->in);
  const bool accepted = acceptor.go_on(now);
  const bool answered = dialler.go_on(now);
  if (up() && !connection_->told) {
    connection_->told = true;
    dialler_.fabric.on_up_changed(acceptor_.id, now);
    dialler_.fabric.on_restored(acceptor_.id, now);
    dialler_.fabric.on_ready(acceptor_.id, now);
  }
  if (std::exchange(dialler.drained, false)) dialler_.fabric.on_ready(acceptor_.id, now);
  return moved || accepted || answered;
}

class LaneTransport::LanePath final : public verbs::Path {
 public:
  LanePath(LanePair lanes, transport::SegmentId segment, transport::Traffic& traffic)
      : lanes_(lanes), segment_(segment), traffic_(traffic) {}
  std::uint32_t room(std::uint32_t wanted, Instant) override {
    FrameSocket* socket = lanes_.mine->dialled();
    return socket != nullptr && socket->has_room(wanted) ? wanted : 0;
  }
  void send_request(const verbs::Request& request, const guestmem::SpanList& payload, Instant now) override {
    traffic_.count(payload);
    if (FrameSocket* socket = lanes_.mine->dialled()) socket->send(segment_, request, payload, now);
  }
  void send_response(const verbs::Response& response, const guestmem::SpanList& payload,
                     Instant now) override {
    traffic_.count(payload);
    if (FrameSocket* socket = lanes_.theirs->accepted()) socket->send(segment_, response, payload, now);
  }

 private:
  const LanePair lanes_;
  const transport::SegmentId segment_;
  transport::Traffic& traffic_;
};

LanePair LaneTransport::lanes_of(const verbs::Gid& gid) const {
  const auto found =
      std::find_if(lanes_.begin(), lanes_.end(), [&](const Route& route) { return route.gid == gid; });
  PVRDMA_CHECK(found != lanes_.end(), "each GID has its lanes");
  return found->lanes;
}

void LaneTransport::open(const transport::Place& place, const verbs::Connection& connection,
                         transport::Traffic& traffic, verbs::PathSlot& slot) {
  slot.open<LanePath>(lanes_of(connection.local.gid), place.segment, traffic);
}

bool LaneTransport::send_datagram(const transport::Place& place, const verbs::Datagram& datagram,
                                  const guestmem::SpanList& payload, transport::Traffic& traffic,
                                  Instant now) {
  traffic.count(payload);
  FrameSocket* const socket = lanes_of(datagram.from.gid).mine->dialled();
  if (socket == nullptr) return true;
  socket->send(place.segment, datagram, payload, now);
  return socket->takes_datagrams(now);
}

bool LaneTransport::is_up(HostId) const {
  return std::any_of(lanes_.begin(), lanes_.end(), [](const Route& route) { return route.lanes.mine->up(); });
}

}  // namespace pvrdma::fuzz
