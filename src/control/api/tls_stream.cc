#include "control/api/tls_stream.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

namespace pvrdma::control {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kSlice{100};  // how soon closing_ is seen
constexpr int kDrainReadsMax = 64;

// SSL functions take an int.
int bounded(std::size_t size) {
  return static_cast<int>(std::min<std::size_t>(size, 1U << 20U));
}

}  // namespace

TlsStream::TlsStream(Fd fd, std::unique_ptr<SSL, SslDeleter> ssl, const TlsLimits& limits,
                     const std::atomic<bool>& closing)
    : fd_(std::move(fd)),
      ssl_(std::move(ssl)),
      limits_(limits),
      closing_(closing),
      read_deadline_(Clock::now() + limits.read) {
  ::fcntl(fd_.get(), F_SETFL, ::fcntl(fd_.get(), F_GETFL) | O_NONBLOCK);
  SSL_set_fd(ssl_.get(), fd_.get());
}

TlsStream::~TlsStream() = default;

bool TlsStream::handshake() {
  for (;;) {
    ERR_clear_error();
    const int result = SSL_accept(ssl_.get());
    if (result == 1) return true;
    if (!wait_for(result, read_deadline_)) return false;
  }
}

void TlsStream::finish() {
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
  ::shutdown(fd_.get(), SHUT_WR);
  // Bytes that nobody reads (a refused request's body) would make close() reset the connection, and the
  // client lose the answer.
  std::array<char, 4096> rest;
  const Time deadline = Clock::now() + kSlice;
  for (int i = 0; i < kDrainReadsMax && wait(POLLIN, deadline); ++i) {
    if (::recv(fd_.get(), rest.data(), rest.size(), 0) <= 0) return;
  }
}

bool TlsStream::is_readable() const {
  return SSL_pending(ssl_.get()) > 0 || wait(POLLIN, read_deadline_);
}

bool TlsStream::is_writable() const {
  return wait(POLLOUT, Clock::now() + limits_.write);
}

ssize_t TlsStream::read(char* data, std::size_t size) {
  size = std::min(size, limits_.read_bytes_max - read_bytes_);
  if (size == 0) return -1;
  for (;;) {
    ERR_clear_error();
    const int result = SSL_read(ssl_.get(), data, bounded(size));
    if (result > 0) {
      read_bytes_ += static_cast<std::size_t>(result);
      return Clock::now() < read_deadline_ ? result : -1;
    }
    if (SSL_get_error(ssl_.get(), result) == SSL_ERROR_ZERO_RETURN) return 0;
    if (!wait_for(result, read_deadline_)) return -1;
  }
}

// All of it or nothing: the library does not come back for a rest.
ssize_t TlsStream::write(const char* data, std::size_t size) {
  if (write_deadline_ == Time{}) write_deadline_ = Clock::now() + limits_.write;
  std::size_t written = 0;
  while (written < size) {
    ERR_clear_error();
    const int result = SSL_write(ssl_.get(), data + written, bounded(size - written));
    if (result > 0) {
      written += static_cast<std::size_t>(result);
    } else if (!wait_for(result, write_deadline_)) {
      return -1;
    }
  }
  return static_cast<ssize_t>(size);
}

void TlsStream::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = -1;
}

void TlsStream::get_local_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = -1;
}

bool TlsStream::wait_for(int result, Time deadline) {
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return wait(POLLIN, deadline);
    case SSL_ERROR_WANT_WRITE:
      return wait(POLLOUT, deadline);
    default:
      return false;
  }
}

bool TlsStream::wait(short events, Time deadline) const {
  deadline = std::min(deadline, Clock::now() + limits_.silence);
  while (!closing_.load(std::memory_order_relaxed)) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    pollfd one{fd_.get(), events, 0};
    if (::poll(&one, 1, static_cast<int>(std::min(left, kSlice).count())) > 0) return true;
  }
  return false;
}

}  // namespace pvrdma::control
