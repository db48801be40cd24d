#include "transport/tcp/plain_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "transport/tcp/pieces.h"

namespace pvrdma::transport::tcp {
namespace {

constexpr std::size_t kPiecesMax = 1024;  // IOV_MAX
// From this size on, filling the last packet is worth two system calls.
constexpr std::size_t kCorkBytes = 16 * 1024;

class PlainStream final : public Stream {
 public:
  explicit PlainStream(Fd socket) : socket_(std::move(socket)) {}

  int fd() const override { return socket_.get(); }
  Handshake handshake() override { return Handshake::kDone; }

  Transfer read_some(std::span<std::byte> into) override {
    PVRDMA_CHECK(!into.empty(), "a read of nothing cannot tell the stream's end");
    ssize_t got = 0;
    do {
      got = ::recv(socket_.get(), into.data(), into.size(), MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got > 0) return {Io::kDone, static_cast<std::size_t>(got)};
    if (got == 0) return {Io::kClosed, 0};
    return {failed(errno), 0};
  }

  Transfer ready(std::size_t wanted) override {
    int held = 0;
    if (::ioctl(socket_.get(), FIONREAD, &held) != 0) return {failed(errno), 0};
    const auto bytes = static_cast<std::size_t>(std::max(held, 0));
    if (bytes >= wanted) return {Io::kDone, bytes};
    // FIONREAD cannot tell whether more bytes can come, so ask for the end of the stream.
    pollfd state{.fd = socket_.get(), .events = POLLRDHUP, .revents = 0};
    if (::poll(&state, 1, 0) <= 0) return {Io::kWouldBlock, bytes};
    if ((state.revents & POLLERR) != 0) return {failed(pending_error()), bytes};
    if (::ioctl(socket_.get(), FIONREAD, &held) != 0) return {failed(errno), 0};  // bytes before the end
    const auto at_end = static_cast<std::size_t>(std::max(held, 0));
    return {at_end >= wanted ? Io::kDone : Io::kClosed, at_end};
  }

  std::size_t read_into(const guestmem::SpanList& into) override {
    std::array<iovec, guestmem::SpanList::kCapacity> pieces;
    std::size_t count = 0;
    for (const guestmem::HostSpan& span : into)
      pieces[count++] = {.iov_base = span.data, .iov_len = span.size};
    std::span<iovec> left(pieces.data(), count);
    std::size_t done = 0;
    while (done < into.bytes()) {
      msghdr message{};
      message.msg_iov = left.data();
      message.msg_iovlen = left.size();
      ssize_t got = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EFAULT) got = read_through_own_memory(left);
      if (got <= 0) {
        if (trouble_.empty()) trouble_ = "the connection ended inside a message";
        return done;
      }
      done += static_cast<std::size_t>(got);
      left = drop_front(left, static_cast<std::size_t>(got));
    }
    return done;
  }

  Transfer write_some(std::span<const iovec> pieces) override {
    if (!corked_ && reach(pieces, kCorkBytes)) cork(true);
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces.data());  // sendmsg() only reads it
    message.msg_iovlen = std::min(pieces.size(), kPiecesMax);
    ssize_t sent = 0;
    do {
      sent = ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno == EFAULT) {
      std::array<std::byte, kOwnBytes> own;
      const std::size_t size = gather(pieces, own);
      sent = ::send(socket_.get(), own.data(), size, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    if (sent >= 0) return {Io::kDone, static_cast<std::size_t>(sent)};
    return {failed(errno), 0};
  }

  void push() override {
    if (corked_) cork(false);
  }

  bool wants_write() const override { return false; }
  Io flush() override { return Io::kDone; }
  bool peer_is(std::string_view) const override { return true; }
  std::vector<std::string> peer_names() const override { return {}; }
  std::string trouble() const override { return trouble_; }

 private:
  static constexpr std::size_t kOwnBytes = 16 * 1024;

  // MSG_MORE is not enough: the next acknowledgement would send the rest.
  void cork(bool wanted) {
    const int on = wanted ? 1 : 0;
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_CORK, &on, sizeof(on));
    corked_ = wanted;
  }

  Io failed(int error) {
    if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR) return Io::kWouldBlock;
    trouble_ = "the connection broke: " + std::generic_category().message(error);
    return Io::kBroken;
  }

  int pending_error() const {
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    return error != 0 ? error : ECONNRESET;
  }

  // A page of the target has vanished, so the kernel's copy fails. A copy by this process is repaired
  // (guestmem/sigbus.h).
  ssize_t read_through_own_memory(std::span<const iovec> into) {
    std::array<std::byte, kOwnBytes> own;
    std::size_t room = 0;
    for (const iovec& piece : into) room += std::min(piece.iov_len, own.size());
    const ssize_t got = ::recv(socket_.get(), own.data(), std::min(room, own.size()), MSG_DONTWAIT);
    if (got > 0) scatter({own.data(), static_cast<std::size_t>(got)}, into);
    return got;
  }

  Fd socket_;
  bool corked_ = false;
  std::string trouble_;
};

}  // namespace

std::unique_ptr<Stream> make_plain_stream(Fd socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

}  // namespace pvrdma::transport::tcp
