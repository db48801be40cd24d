#include "api/client_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

namespace pvrdma::api {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kSlice{100};  // how often closing_ is checked
constexpr int kDrainReadsMax = 64;

bool may_try_again(int code) {
  return code == EAGAIN || code == EINTR;
}

}  // namespace

ClientStream::ClientStream(const StreamLimits& limits, const std::atomic<bool>& closing)
    : limits_(limits),
      closing_(closing),
      read_deadline_(Clock::now() + limits.read),
      read_bytes_max_(limits.read_bytes_max) {}

void ClientStream::finish() {
  shut_down();
  ::shutdown(socket(), SHUT_WR);
  // Reads the bytes that no handler has read (a refused request's body). Otherwise close() would reset the
  // connection, and the client would lose the answer.
  std::array<char, 4096> rest;
  const Time deadline = Clock::now() + kSlice;
  for (int i = 0; i < kDrainReadsMax && wait(POLLIN, deadline); ++i) {
    if (::recv(socket(), rest.data(), rest.size(), MSG_DONTWAIT) <= 0) return;
  }
}

bool ClientStream::is_readable() const {
  return holds_input() || wait(POLLIN, read_deadline_);
}

bool ClientStream::is_writable() const {
  return wait(POLLOUT, Clock::now() + limits_.write);
}

ssize_t ClientStream::read(char* data, std::size_t size) {
  size = std::min(size, read_bytes_max_ - read_bytes_);
  if (size == 0) return -1;
  for (;;) {
    const tls::Transfer got = read_some(std::as_writable_bytes(std::span(data, size)));
    if (got.io == tls::Io::kClosed) return 0;
    if (got.io == tls::Io::kDone) {
      read_bytes_ += got.bytes;
      return Clock::now() < read_deadline_ ? static_cast<ssize_t>(got.bytes) : -1;
    }
    if (!wait_for(got.io, read_deadline_)) return -1;
  }
}

// Writes everything or fails, because the library does not retry with the rest.
ssize_t ClientStream::write(const char* data, std::size_t size) {
  if (write_deadline_ == Time{}) write_deadline_ = Clock::now() + limits_.write;
  std::span<const std::byte> left = std::as_bytes(std::span(data, size));
  while (!left.empty()) {
    const tls::Transfer written = write_some(left);
    if (written.io == tls::Io::kDone) {
      left = left.subspan(written.bytes);
    } else if (!wait_for(written.io, write_deadline_)) {
      return -1;
    }
  }
  return static_cast<ssize_t>(size);
}

void ClientStream::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = -1;
}

void ClientStream::get_local_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = -1;
}

bool ClientStream::wait_for(tls::Io io, Time deadline) const {
  switch (io) {
    case tls::Io::kWantRead:
      return wait(POLLIN, deadline);
    case tls::Io::kWantWrite:
      return wait(POLLOUT, deadline);
    case tls::Io::kDone:
    case tls::Io::kClosed:
    case tls::Io::kBroken:
      break;
  }
  return false;
}

bool ClientStream::wait(short events, Time deadline) const {
  deadline = std::min(deadline, Clock::now() + limits_.silence);
  while (!closing_.load(std::memory_order_relaxed)) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    pollfd one{socket(), events, 0};
    if (::poll(&one, 1, static_cast<int>(std::min(left, kSlice).count())) > 0) return true;
  }
  return false;
}

TlsClientStream::TlsClientStream(std::unique_ptr<tls::Stream> stream, const StreamLimits& limits,
                                 const std::atomic<bool>& closing)
    : ClientStream(limits, closing), stream_(std::move(stream)) {}

bool TlsClientStream::handshake() {
  for (;;) {
    const tls::Io io = stream_->handshake();
    if (io == tls::Io::kDone) return true;
    if (!wait_to_read(io)) return false;
  }
}

PlainClientStream::PlainClientStream(Fd socket, const StreamLimits& limits, const std::atomic<bool>& closing)
    : ClientStream(limits, closing), socket_(std::move(socket)) {}

tls::Transfer PlainClientStream::read_some(std::span<std::byte> into) {
  const ssize_t got = ::recv(socket_.get(), into.data(), into.size(), MSG_DONTWAIT);
  if (got > 0) return {tls::Io::kDone, static_cast<std::size_t>(got)};
  if (got == 0) return {tls::Io::kClosed, 0};
  return {may_try_again(errno) ? tls::Io::kWantRead : tls::Io::kBroken, 0};
}

tls::Transfer PlainClientStream::write_some(std::span<const std::byte> from) {
  const ssize_t put = ::send(socket_.get(), from.data(), from.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (put >= 0) return {tls::Io::kDone, static_cast<std::size_t>(put)};
  return {may_try_again(errno) ? tls::Io::kWantWrite : tls::Io::kBroken, 0};
}

}  // namespace pvrdma::api
