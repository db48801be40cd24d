#include "vfio_user/message_socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/core.h>
#include <utility>

#include "base/passed_descriptors.h"

namespace pvrdma::vfio_user {
namespace {

constexpr std::size_t kInputBytes = MessageSocket::kBurstBytes + kMaxMessageBytes;

bool would_block(int code) {
  return code == EAGAIN || code == EWOULDBLOCK;
}

// The client's socket has a timeout, and on such sockets a signal interrupts even restartable calls.
template <typename Call>
ssize_t retry_interrupted(Call call) {
  ssize_t result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

}  // namespace

MessageSocket::MessageSocket(ClientFd socket, std::shared_ptr<ReaperQueue> queue)
    : queue_(std::move(queue)),
      socket_(std::move(socket)),
      input_(std::make_unique_for_overwrite<std::byte[]>(kInputBytes)) {
  of(Exchange::kOfClient).bytes = std::make_unique_for_overwrite<std::byte[]>(kMaxMessageBytes);
}

Result<bool> MessageSocket::receive() {
  PVRDMA_CHECK(input_end_ + input_wanted_ <= kInputBytes, "receiving beyond the input buffer");
  if (queue_ != nullptr && !queue_->has_room()) [[unlikely]] {
    return fail(EBUSY, fmt::format("{} of its file descriptors are still being closed", queue_->waiting()));
  }
  iovec bytes{input_.get() + input_end_, input_wanted_};
  alignas(cmsghdr) std::byte control[CMSG_SPACE(ReaperQueue::kMostAtOnce * sizeof(int))];
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);

  const ssize_t got = retry_interrupted([&] { return ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC); });
  if (got < 0 && would_block(errno)) return false;
  // ECONNRESET means that the peer left unread input behind when it closed the socket.
  const bool closed = got == 0 || (got < 0 && errno == ECONNRESET);
  if (got < 0 && !closed) return fail_errno(errno, "receiving failed");
  if (closed) {
    if (input_begin_ == input_end_) return fail(0, "the peer closed the connection");
    return fail(EPROTO, "the peer closed the connection in the middle of a message");
  }
  if (auto kept = keep_fds(message); !kept) return Failure(std::move(kept).error());
  input_end_ += static_cast<std::size_t>(got);
  return true;
}

Result<void> MessageSocket::keep_fds(msghdr& message) {
  bool too_many = (message.msg_flags & MSG_CTRUNC) != 0;
  take_descriptors(message, [&](int raw) {
    ClientFd fd(Fd(raw), queue_);
    if (fd_count_ < fds_.size()) {
      fds_[fd_count_++] = std::move(fd);
    } else {
      too_many = true;
    }
  });
  if (too_many) {
    return fail(
        EPROTO,
        fmt::format("a message with more than {} file descriptors, or more than this process can open",
                    kMaxMessageFds));
  }
  return {};
}

void MessageSocket::close_fds() {
  for (std::size_t i = 0; i < fd_count_; ++i) fds_[i].reset();
  fd_count_ = 0;
}

Result<std::optional<Message>> MessageSocket::next_message() {
  if (fds_lent_) {
    close_fds();
    fds_lent_ = false;
  }
  const std::size_t available = input_end_ - input_begin_;
  if (available == 0) {
    input_begin_ = input_end_ = 0;
    input_wanted_ = kBurstBytes;
    return std::nullopt;
  }
  if (available < kHeaderBytes) {
    input_wanted_ = kHeaderBytes - available;
    return std::nullopt;
  }
  const std::span<const std::byte> input(input_.get() + input_begin_, available);
  const auto header = read<wire::Header>(input);
  if (header.size_bytes < kHeaderBytes || header.size_bytes > kMaxMessageBytes) {
    return fail(EPROTO, fmt::format("a message with a size of {} bytes; {} to {} are allowed",
                                    header.size_bytes, kHeaderBytes, kMaxMessageBytes));
  }
  if (available < header.size_bytes) {
    input_wanted_ = header.size_bytes - available;
    return std::nullopt;
  }
  Message message{header, input.subspan(kHeaderBytes, header.size_bytes - kHeaderBytes), {}};
  input_begin_ += header.size_bytes;
  if (input_begin_ == input_end_) {
    message.fds = std::span(fds_).first(fd_count_);
    fds_lent_ = true;
  }
  return message;
}

std::optional<wire::Header> MessageSocket::next_header() const {
  if (input_end_ - input_begin_ < kHeaderBytes) return std::nullopt;
  return read<wire::Header>(std::span(input_.get() + input_begin_, kHeaderBytes));
}

void MessageSocket::save(SavedSession& saved) const {
  const auto bytes_of = [](const std::unique_ptr<std::byte[]>& from, std::size_t begin, std::size_t end) {
    std::vector<std::uint8_t> bytes(end - begin);
    if (begin != end) std::memcpy(bytes.data(), from.get() + begin, bytes.size());
    return bytes;
  };
  const Outgoing& reply = of(Exchange::kOfClient);
  const Outgoing& request = of(Exchange::kOfServer);
  saved.input = bytes_of(input_, input_begin_, input_end_);
  saved.reply = bytes_of(reply.bytes, reply.begin, reply.end);
  saved.reply_has_fd = !saved.reply.empty() && reply.fd >= 0;
  saved.request = bytes_of(request.bytes, request.begin, request.end);
}

bool MessageSocket::restore(const SavedSession& saved, std::span<ClientFd> held, int fd) {
  if (saved.input.size() > kInputBytes || held.size() > fds_.size() ||
      std::max(saved.reply.size(), saved.request.size()) > kMaxMessageBytes)
    return false;
  if (!saved.input.empty()) std::memcpy(input_.get(), saved.input.data(), saved.input.size());
  input_end_ = saved.input.size();
  for (ClientFd& each : held) fds_[fd_count_++] = std::move(each);
  const auto put = [this](Exchange exchange, const std::vector<std::uint8_t>& bytes) {
    if (bytes.empty()) return;
    std::memcpy(output(exchange).data(), bytes.data(), bytes.size());
    of(exchange).end = bytes.size();
  };
  put(Exchange::kOfClient, saved.reply);
  put(Exchange::kOfServer, saved.request);
  if (saved.reply_has_fd) of(Exchange::kOfClient).fd = fd;
  return true;
}

void MessageSocket::shut_down() {
  ::shutdown(socket_.get(), SHUT_RDWR);
}

std::span<std::byte> MessageSocket::output(Exchange exchange) {
  PVRDMA_CHECK(!output_pending(exchange), "composing a message over one that is still to be sent");
  Outgoing& outgoing = of(exchange);
  if (outgoing.bytes == nullptr)
    outgoing.bytes = std::make_unique_for_overwrite<std::byte[]>(kMaxMessageBytes);
  return {outgoing.bytes.get(), kMaxMessageBytes};
}

Result<void> MessageSocket::send(Exchange exchange, std::size_t bytes, int fd) {
  PVRDMA_CHECK(!output_pending(exchange) && bytes <= kMaxMessageBytes, "sending out of turn or too much");
  Outgoing& outgoing = of(exchange);
  outgoing.begin = 0;
  outgoing.end = bytes;
  outgoing.fd = fd;
  return flush();
}

Result<void> MessageSocket::flush() {
  const bool servers_is_cut = of(Exchange::kOfServer).begin != 0;
  for (const bool clients_turn : {!servers_is_cut, servers_is_cut}) {
    Outgoing& outgoing = of(clients_turn ? Exchange::kOfClient : Exchange::kOfServer);
    if (outgoing.begin == outgoing.end) continue;
    if (auto sent = send_some(outgoing); !sent) return sent;
    if (outgoing.begin != outgoing.end) return {};
    outgoing.begin = outgoing.end = 0;
  }
  return {};
}

Result<void> MessageSocket::send_some(Outgoing& outgoing) {
  iovec bytes{outgoing.bytes.get() + outgoing.begin, outgoing.end - outgoing.begin};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  DescriptorRoom<1> room;
  if (outgoing.fd >= 0) room.send_with(message, {&outgoing.fd, 1});
  const ssize_t sent = retry_interrupted([&] { return ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL); });
  if (sent < 0) {
    if (would_block(errno)) return {};
    return fail_errno(errno, "sending failed");
  }
  outgoing.begin += static_cast<std::size_t>(sent);
  outgoing.fd = -1;  // it was sent with the first byte
  return {};
}

}  // namespace pvrdma::vfio_user
