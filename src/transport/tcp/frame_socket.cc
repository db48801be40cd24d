#include "transport/tcp/frame_socket.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <new>
#include <sys/socket.h>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "transport/tcp/pieces.h"

namespace pvrdma::transport::tcp {
namespace {

constexpr std::size_t kSendSoonBytes = 64 * 1024;  // gathered bytes above which they are sent at once
constexpr std::size_t kKeptBytes = 1024 * 1024;    // the buffer that an idle connection may keep
constexpr std::size_t kUnreadBytesMax = 4 * 1024 * 1024;

}  // namespace

template <typename Action>
void FrameSocket::or_break(Action action) {
  try {
    action();
  } catch (const std::bad_alloc&) {
    break_off("no memory");  // short enough for std::string to allocate nothing
  }
}

FrameSocket::FrameSocket(TcpShared& shared, User& user, Role role, std::unique_ptr<Stream> stream)
    : shared_(shared),
      user_(user),
      role_(role),
      stream_(std::move(stream)),
      state_(role == Role::kDialler ? State::kConnecting : State::kSecuring) {}

FrameSocket::~FrameSocket() {
  if (watched_) shared_.loop.unwatch(stream_->fd());
  if (unflushed_) std::erase(shared_.unflushed, this);
  if (unfinished_) std::erase(shared_.unfinished, this);
  if (unsecured_) std::erase(shared_.unsecured, this);
}

Result<void> FrameSocket::start(Instant now) {
  if (auto watched = watch(now); !watched) return watched;
  if (state_ == State::kSecuring) secure(now);
  return {};
}

Result<void> FrameSocket::resume(Instant now) {
  state_ = State::kGreeting;
  next_receive_ = 1;
  if (auto watched = watch(now); !watched) return watched;
  // TLS may hold bytes that came with the Hello.
  unfinished_ = true;
  shared_.unfinished.push_back(this);
  return {};
}

Result<void> FrameSocket::watch(Instant now) {
  started_ = last_heard_ = last_sent_ = now;
  interest_ = state_ == State::kConnecting ? shard::Interest::kWrite : shard::Interest::kRead;
  if (auto watched = shared_.loop.watch(stream_->fd(), interest_, *this); !watched) return watched;
  watched_ = true;
  shared_.check_at(next_deadline());
  return {};
}

void FrameSocket::start_or_break(Instant now) {
  or_break([&] {
    if (auto started = start(now); !started) break_off(std::move(started).error().message);
  });
}

std::string FrameSocket::what() const {
  return state_ == State::kUp ? "a lane to another host" : "a lane that is being set up";
}

void FrameSocket::on_fd_ready(int /*fd*/, shard::Readiness ready) {
  or_break([&] { on_ready(ready, shared_.clock.now()); });
}

void FrameSocket::on_ready(shard::Readiness ready, Instant now) {
  switch (state_) {
    case State::kConnecting:
      finish_connect(now);
      return;
    case State::kSecuring:
      secure(now);
      return;
    case State::kGreeting:
    case State::kUp:
      if (ready.writable && interest_ != shard::Interest::kRead) {
        blocked_ = false;
        flush(now);
      }
      if (ready.readable) receive(now);
      return;
    case State::kBroken:
      return;
  }
}

void FrameSocket::finish_connect(Instant now) {
  int code = 0;
  socklen_t length = sizeof(code);
  if (::getsockopt(stream_->fd(), SOL_SOCKET, SO_ERROR, &code, &length) != 0) code = errno;
  if (code != 0) {
    break_off(fmt::format("cannot connect: {}", std::generic_category().message(code)));
    return;
  }
  state_ = State::kSecuring;
  secure(now);
}

// TLS waits for its turn. Events of the descriptor do not matter meanwhile.
void FrameSocket::secure(Instant now) {
  if (shared_.options.tls == nullptr) {
    secure_now(now);
  } else if (!std::exchange(unsecured_, true)) {
    shared_.unsecured.push_back(this);
  }
}

void FrameSocket::secure_now(Instant now) {
  unsecured_ = false;
  or_break([&] { handshake(now); });
}

void FrameSocket::handshake(Instant now) {
  if (state_ != State::kSecuring) return;
  switch (stream_->handshake()) {
    case Stream::Handshake::kDone:
      state_ = State::kGreeting;
      update_interest();
      user_.on_secured(now);
      // TLS may already hold the peer's first bytes.
      if (shared_.options.tls != nullptr && !broken()) receive(now);
      return;
    case Stream::Handshake::kWantRead:
    case Stream::Handshake::kWantWrite:
      update_interest();
      return;
    case Stream::Handshake::kFailed:
    case Stream::Handshake::kCut:
      ++shared_.errors.tls_failures;
      break_off(fmt::format("TLS: {}", stream_->trouble()));
      return;
  }
}

void FrameSocket::update_interest() {
  if (!watched_) return;
  const bool write = blocked_ || stream_->wants_write();
  const shard::Interest wanted = paused_ ? (write ? shard::Interest::kWrite : shard::Interest::kNone)
                                         : (write ? shard::Interest::kBoth : shard::Interest::kRead);
  if (wanted == interest_) return;
  interest_ = wanted;
  shared_.loop.change(stream_->fd(), wanted);
}

void FrameSocket::greet(const wire::Hello& hello, Instant now) {
  wire::Head head;
  or_break([&] { queue(wire::encode(hello, head), {}, now); });
  flush(now);
}

void FrameSocket::greet(const wire::Welcome& welcome, Instant now) {
  wire::Head head;
  or_break([&] { queue(wire::encode(welcome, head), {}, now); });
  flush(now);
}

void FrameSocket::establish(HostId peer, Instant now) {
  if (broken()) return;
  peer_ = peer;
  state_ = State::kUp;
  last_heard_ = now;
  shared_.check_at(next_deadline());
}

void FrameSocket::reject(wire::RejectReason reason, std::string_view sentence, Instant now) {
  if (broken()) return;
  wire::Head head;
  or_break([&] {
    farewell(wire::encode(wire::Reject{.reason = reason, .sentence = wire::Sentence(sentence)}, head), now);
    break_off(std::string(sentence));
  });
}

void FrameSocket::close(wire::GoodbyeReason reason, std::string_view sentence, Instant now) {
  if (broken()) return;
  in_order_ = is_in_order(reason);
  or_break([&] {
    if (state_ == State::kUp) {
      wire::Head head;
      farewell(wire::encode(next_send_, wire::Goodbye{.reason = reason, .sentence = wire::Sentence(sentence)},
                            head),
               now);
    }
    break_off(std::string(sentence));
  });
}

std::unique_ptr<Stream> FrameSocket::release() {
  if (broken()) return nullptr;
  if (output_.unsent() != 0 || stream_->wants_write() || !staged().empty()) {
    break_off("it did not wait for its welcome");
    return nullptr;
  }
  in_order_ = true;
  break_off({});
  return std::move(stream_);
}

void FrameSocket::drop(std::string trouble) {
  break_off(std::move(trouble));
}

// Best effort: bytes that the socket does not take now are lost with the connection.
void FrameSocket::farewell(std::span<const std::byte> head, Instant now) {
  queue(head, {}, now);
  flush(now);
  if (broken()) return;
  // Closing a socket with unread bytes resets the connection, and the reset can overtake the last frame.
  ::shutdown(stream_->fd(), SHUT_WR);
  for (std::size_t unread = 0; unread < kUnreadBytesMax;) {
    const ssize_t skipped = ::recv(stream_->fd(), nullptr, kUnreadBytesMax, MSG_TRUNC | MSG_DONTWAIT);
    if (skipped <= 0) return;
    unread += static_cast<std::size_t>(skipped);
  }
}

void FrameSocket::break_off(std::string trouble) {
  if (broken()) return;
  state_ = State::kBroken;
  trouble_ = std::move(trouble);
  if (watched_) shared_.loop.unwatch(stream_->fd());
  watched_ = false;
  shared_.attention = true;
}

bool FrameSocket::has_room(std::uint32_t payload_bytes) {
  // Behind a full socket, all of a large payload would have to be copied.
  const bool none = output_.unsent() > kBusyBytes || (blocked_ && payload_bytes > kGatherBytes);
  wanted_ = wanted_ || none;
  return !none;
}

void FrameSocket::send(SegmentId segment, const verbs::Request& request, const guestmem::SpanList& payload,
                       Instant now) {
  PVRDMA_CHECK(payload.bytes() == wire::payload_bytes(request), "a request comes with its payload");
  wire::Head buffer;
  const auto head = wire::encode(next_send_, segment, request, buffer);
  if (head.empty()) return;  // the same as if it were lost
  or_break([&] {
    if (payload.bytes() <= kGatherBytes) {
      queue(head, payload, now);
    } else {
      write_through(head, payload, now);
    }
  });
  ++shared_.counters.requests;
  shared_.counters.payload_bytes += payload.bytes();
}

bool FrameSocket::send(SegmentId segment, const verbs::Response& response, const guestmem::SpanList& payload,
                       Instant now) {
  PVRDMA_CHECK(payload.bytes() == wire::payload_bytes(response), "a response comes with its payload");
  if (output_.unsent() > kOutputMax) return false;
  wire::Head buffer;
  const auto head = wire::encode(next_send_, segment, response, buffer);
  if (head.empty()) return false;
  or_break([&] {
    if (payload.bytes() <= kGatherBytes || blocked_) {
      queue(head, payload, now);
    } else {
      write_through(head, payload, now);
    }
  });
  ++shared_.counters.responses;
  shared_.counters.payload_bytes += payload.bytes();
  return true;
}

bool FrameSocket::takes_datagrams(Instant now) {
  return has_room(0) || now >= last_sent_ + kStallTime;
}

bool FrameSocket::send(SegmentId segment, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                       Instant now) {
  PVRDMA_CHECK(payload.bytes() == wire::payload_bytes(datagram), "a datagram comes with its payload");
  const std::size_t bound = datagram.to.qpn == verbs::kGsiQpn ? kGsiBytesMax : kDatagramBytesMax;
  if (output_.unsent() > bound) return false;
  wire::Head buffer;
  const auto head = wire::encode(next_send_, segment, datagram, buffer);
  if (head.empty()) return false;
  or_break([&] { queue(head, payload, now); });
  ++shared_.counters.datagrams;
  shared_.counters.payload_bytes += payload.bytes();
  return true;
}

void FrameSocket::queue(std::span<const std::byte> head, const guestmem::SpanList& payload, Instant now) {
  output_.append(head);
  output_.append(payload, 0);
  ++next_send_;
  if (!blocked_ && output_.unsent() >= kSendSoonBytes) {
    flush(now);
  } else {
    flush_later();
  }
}

void FrameSocket::flush_later() {
  if (unflushed_) return;
  unflushed_ = true;
  shared_.unflushed.push_back(this);
}

void FrameSocket::write_through(std::span<const std::byte> head, const guestmem::SpanList& payload,
                                Instant now) {
  std::array<iovec, guestmem::SpanList::kCapacity + 2> pieces;
  std::size_t end = 0;
  const std::span<std::byte> gathered = output_.pending();
  if (!gathered.empty()) pieces[end++] = {gathered.data(), gathered.size()};
  pieces[end++] = {const_cast<std::byte*>(head.data()), head.size()};
  for (const guestmem::HostSpan& span : payload) pieces[end++] = {span.data, span.size};

  const std::size_t total = gathered.size() + head.size() + static_cast<std::size_t>(payload.bytes());
  std::size_t taken = 0;
  std::span<iovec> left(pieces.data(), end);
  while (taken < total) {
    const Transfer transfer = stream_->write_some(left);
    if (transfer.io == Io::kWouldBlock) break;
    if (transfer.io != Io::kDone) {
      stream_ended(transfer.io);
      return;
    }
    taken += transfer.bytes;
    left = drop_front(left, transfer.bytes);
  }
  if (taken != 0) wrote(now);
  output_.consume(std::min(taken, gathered.size()));
  if (taken < total) {
    blocked();
    const std::size_t of_frame = taken > gathered.size() ? taken - gathered.size() : 0;
    output_.append(head.subspan(std::min(of_frame, head.size())));
    output_.append(payload, of_frame > head.size() ? of_frame - head.size() : 0);
  }
  ++next_send_;
  flush_later();
  update_interest();
}

void FrameSocket::flush(Instant now) {
  if (broken() || blocked_) return;
  or_break([&] { flush_now(now); });
}

void FrameSocket::flush_now(Instant now) {
  if (stream_ == nullptr) return;
  while (output_.unsent() != 0) {
    const iovec piece{output_.pending().data(), output_.unsent()};
    const Transfer transfer = stream_->write_some({&piece, 1});
    if (transfer.io == Io::kWouldBlock) {
      blocked();
      break;
    }
    if (transfer.io != Io::kDone) {
      stream_ended(transfer.io);
      return;
    }
    output_.consume(transfer.bytes);
    wrote(now);
  }
  if (!blocked_ && stream_->wants_write()) {
    const Io io = stream_->flush();
    if (io == Io::kWouldBlock) {
      blocked();
    } else if (io != Io::kDone) {
      stream_ended(io);
      return;
    }
  }
  if (!blocked_) stream_->push();
  if (paused_ && output_.unsent() < kPauseBytes / 2) {
    paused_ = false;
    last_heard_ = now;
    if (!unfinished_) {
      unfinished_ = true;
      shared_.unfinished.push_back(this);
    }
  }
  if (wanted_ && !blocked_) {
    wanted_ = false;
    user_.on_drained();
  }
  update_interest();
}

void FrameSocket::flush_gathered(Instant now) {
  unflushed_ = false;
  flush(now);
}

void FrameSocket::wrote(Instant now) {
  last_sent_ = now;
  if (paused_) last_heard_ = now;
}

void FrameSocket::blocked() {
  blocked_ = true;
  update_interest();
}

void FrameSocket::on_time(Instant now) {
  if (!broken()) or_break([&] { do_time(now); });
}

void FrameSocket::do_time(Instant now) {
  if (state_ != State::kUp) {
    if (now < started_ + kHandshakeTime) return;
    break_off(state_ == State::kConnecting ? "cannot connect: no answer"
                                           : "the handshake was not completed within 3 seconds");
    return;
  }
  is_quiet_ = now >= last_heard_ + kQuietTime;
  if (now >= last_heard_ + kSilenceMax) {
    ++shared_.errors.silent_peers;
    close(wire::GoodbyeReason::kSilent, "no byte arrived for 3 seconds", now);
    return;
  }
  if (now < last_sent_ + kPingPause) return;
  if (output_.unsent() != 0 || blocked_) {
    last_sent_ = now;  // a ping would only queue behind the waiting bytes
  } else {
    output_.give_back(kKeptBytes);
    wire::Head head;
    queue(wire::encode(next_send_, wire::Ping{.frames_received = next_receive_}, head), {}, now);
    flush(now);
  }
}

Instant FrameSocket::next_deadline() const {
  if (broken()) return Instant::never();
  if (state_ != State::kUp) return started_ + kHandshakeTime;
  return std::min(last_heard_ + (is_quiet_ ? kSilenceMax : kQuietTime), last_sent_ + kPingPause);
}

void flush_all(TcpShared& shared, Instant now) {
  // flush() adds nothing to the list.
  for (std::size_t i = 0; i < shared.unflushed.size(); ++i) shared.unflushed[i]->flush_gathered(now);
  shared.unflushed.clear();
}

}  // namespace pvrdma::transport::tcp
