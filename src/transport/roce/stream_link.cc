#include "transport/roce/stream_link.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <endian.h>
#include <sys/socket.h>
#include <utility>

#include "base/check.h"
#include "base/unix_listener.h"
#include "roce/frame.h"

namespace pvrdma::transport::roce {
namespace {

using pvrdma::roce::kFrameBytesMax;

constexpr std::size_t kBufferBytes = 256 * 1024;
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kSlotBytes = kLengthBytes + kFrameBytesMax;
constexpr std::size_t kForeignFrameBytesMax = 4096 + 65536;  // the longest frame that QEMU sends

std::size_t length_at(const std::byte* at) {
  std::uint32_t length = 0;
  std::memcpy(&length, at, sizeof(length));
  return be32toh(length);
}

}  // namespace

Result<std::unique_ptr<Link>> StreamLink::open(const std::string& path, shard::Loop& loop, const Clock& clock,
                                               FrameHandler& handler) {
  const auto address = unix_address("RoCE link", path);
  if (!address) return Failure(address.error());
  return std::unique_ptr<Link>(new StreamLink("stream:" + path, *address, loop, clock, handler));
}

StreamLink::StreamLink(std::string what, const sockaddr_un& address, shard::Loop& loop, const Clock& clock,
                       FrameHandler& handler)
    : what_(std::move(what)),
      address_(address),
      loop_(loop),
      clock_(clock),
      handler_(handler),
      in_{std::make_unique<std::byte[]>(kBufferBytes)},
      out_{std::make_unique<std::byte[]>(kBufferBytes)},
      outage_(what_) {
  loop_.add(*this);
}

StreamLink::~StreamLink() {
  if (socket_) loop_.unwatch(socket_.get());
  loop_.remove(*this);
}

std::byte* StreamLink::place() {
  if (!socket_) return nullptr;
  if (room() != 0) return out_.bytes.get() + out_.tail + kLengthBytes;
  ++counters_.link_full;
  return nullptr;
}

void StreamLink::send(std::size_t bytes) {
  PVRDMA_CHECK(bytes >= kEthernetHeaderBytes && bytes <= kFrameBytesMax, "the frame has a valid length");
  if (!socket_ || room() == 0) {  // the socket broke after place()
    ++counters_.send_errors;
    return;
  }
  const std::uint32_t length = htobe32(static_cast<std::uint32_t>(bytes));
  std::memcpy(out_.bytes.get() + out_.tail, &length, sizeof(length));
  out_.tail += kLengthBytes + bytes;
  if (room() == 0) starved_ = true;
  ++counters_.sent_pkts;
  counters_.sent_bytes += bytes;
}

std::size_t StreamLink::room() const {
  return socket_ ? (kBufferBytes - out_.tail) / kSlotBytes : 0;
}

void StreamLink::flush(Instant now) {
  if (!socket_ || out_.waiting() == 0) return;
  const ssize_t sent =
      ::send(socket_.get(), out_.bytes.get() + out_.head, out_.waiting(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) {
    fail("the connection broke", errno, now);
    return;
  }
  if (sent > 0) out_.take(static_cast<std::size_t>(sent));
  const bool blocked = out_.waiting() != 0;
  if (blocked == blocked_) return;
  blocked_ = blocked;
  loop_.change(socket_.get(), blocked ? shard::Interest::kBoth : shard::Interest::kRead);
}

void StreamLink::dial(Instant now) {
  if (now < outage_.retry_at()) return;
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return outage_.begin("cannot make a socket", errno, now);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address_), sizeof(address_)) != 0) {
    return outage_.begin("cannot connect", errno, now);
  }
  if (const auto watched = loop_.watch(socket.get(), shard::Interest::kRead, *this); !watched) {
    return outage_.begin("cannot watch the socket", watched.error().code, now);
  }
  socket_ = std::move(socket);
  in_.clear();
  out_.clear();
  skip_ = 0;
  blocked_ = false;
  starved_ = true;
  ++counters_.ups;
  outage_.end(now);
}

// Keeps the buffers: a caller may still be using one of their frames.
void StreamLink::fail(std::string_view why, int code, Instant now) {
  loop_.unwatch(socket_.get());
  socket_.reset();
  outage_.begin(why, code, now);
}

void StreamLink::on_fd_ready(int /*fd*/, shard::Readiness ready) {
  const Instant now = clock_.now();
  if (ready.readable) fill(now);
  if (ready.writable) flush(now);
}

void StreamLink::fill(Instant now) {
  if (in_.tail == kBufferBytes) return;
  const ssize_t got =
      ::recv(socket_.get(), in_.bytes.get() + in_.tail, kBufferBytes - in_.tail, MSG_DONTWAIT);
  if (got > 0) {
    in_.tail += static_cast<std::size_t>(got);
  } else if (got == 0) {
    fail("its peer has closed the connection", 0, now);
  } else if (errno != EAGAIN && errno != EINTR) {
    fail("the connection broke", errno, now);
  }
}

bool StreamLink::has_frame() const {
  if (in_.waiting() < kLengthBytes) return false;
  const std::size_t length = length_at(in_.bytes.get() + in_.head);
  return length > kFrameBytesMax || in_.waiting() >= kLengthBytes + length;
}

void StreamLink::hand_over(Instant now) {
  std::size_t handed = 0;
  for (std::size_t i = 0; i < kBurst && socket_; ++i) {
    const std::size_t skipped = std::min(skip_, in_.waiting());
    skip_ -= skipped;
    in_.take(skipped);
    if (skip_ != 0 || !has_frame()) break;
    const std::byte* const at = in_.bytes.get() + in_.head;
    const std::size_t length = length_at(at);
    if (length > kForeignFrameBytesMax) {
      fail("its peer does not speak QEMU's -netdev stream protocol", 0, now);
      break;
    }
    if (length < kEthernetHeaderBytes || length > kFrameBytesMax) {
      ++counters_.rcvd_bad_length;
      skip_ = kLengthBytes + length;
      continue;
    }
    ++counters_.rcvd_pkts;
    counters_.rcvd_bytes += length;
    ++handed;
    handler_.on_frame({at + kLengthBytes, length}, now);
    in_.take(kLengthBytes + length);
  }
  if (handed != 0) handler_.on_burst_end(now);
}

bool StreamLink::run(Instant now) {
  if (!socket_) return false;
  hand_over(now);
  if (starved_ && room() != 0) {
    starved_ = false;
    handler_.on_room(now);
  }
  return socket_ && has_frame();
}

void StreamLink::Buffer::take(std::size_t count) {
  head += count;
  if (head == tail) return clear();
  if (head < kBufferBytes / 2) return;
  std::memmove(bytes.get(), bytes.get() + head, waiting());
  tail -= head;
  head = 0;
}

}  // namespace pvrdma::transport::roce
