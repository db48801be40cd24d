// MessageSocket: sends and receives whole vfio-user messages over a UNIX stream socket. Server and client use
// it.
//
// Invariants:
//  * The input holds one burst of small messages or one partial message. A receive takes a burst only if the
//    input is empty, and exactly the missing bytes otherwise. So no bytes are ever moved, and the work of one
//    receive is bounded.
//  * File descriptors belong to the message that holds the last byte received. The kernel ends a recvmsg()
//    after the bytes that descriptors came with, and QEMU, libvfio-user and this file send each message by
//    its own sendmsg().
//  * There are two outputs of at most one message each: one for exchanges that the client begins (its
//    requests, the server's replies), one for exchanges that the server begins. A message is sent to its end
//    before the other output may send. Between messages the client's exchanges go first. While one of their
//    messages is pending, a server executes no further command: this is the back-pressure.
//  * Descriptors that nobody took over are closed, and so is the socket: on the client's ReaperQueue if it
//    has one. There is always room for the descriptors of one message, because the kernel closes descriptors
//    that do not fit.
// Buffers have the size of the largest message, but use memory only as far as they are touched. The buffer of
// the server's exchanges is allocated when it is first used.
//
// Thread: owned by one thread. Whether calls block is up to the socket (O_NONBLOCK, SO_RCVTIMEO). Source:
// docs/device.md 8.1.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <sys/socket.h>

#include "base/client_fd.h"
#include "base/result.h"
#include "vfio_user/protocol.h"
#include "vfio_user/saved_session.h"

namespace pvrdma::vfio_user {

// Valid until the next call to next_message() or receive(). The caller takes over a descriptor by moving it
// out.
struct Message {
  wire::Header header;
  std::span<const std::byte> payload;
  std::span<ClientFd> fds;  // at most kMaxMessageFds
};

// Which side began the exchange that a message belongs to.
enum class Exchange { kOfClient, kOfServer };

class MessageSocket {
 public:
  // The most that one receive() takes when no message is under way: 56 doorbell writes.
  static constexpr std::size_t kBurstBytes = 2048;

  explicit MessageSocket(ClientFd socket, std::shared_ptr<ReaperQueue> queue = nullptr);

  int fd() const { return socket_.get(); }

  // Does one recvmsg(); false if there is nothing to receive (EAGAIN). Call it only after next_message()
  // returned no message. Errors end the session: end of stream (code 0 between messages, EPROTO inside one),
  // EPROTO for too many descriptors, EBUSY if earlier descriptors are still not closed, or errno.
  Result<bool> receive();

  // The next complete message, if there is one. The error EPROTO (an impossible size) ends the session.
  Result<std::optional<Message>> next_message();

  // The header of the message that next_message() would return, available as soon as the header has arrived.
  std::optional<wire::Header> next_header() const;

  // Whether received bytes wait for next_message().
  bool holds_bytes() const { return input_begin_ != input_end_; }
  // Whether received descriptors are held, including those of the last message.
  bool holds_fds() const { return fd_count_ != 0; }
  // The descriptors of messages that next_message() has not returned yet.
  std::span<const ClientFd> held_fds() const { return std::span(fds_).first(fds_lent_ ? 0 : fd_count_); }

  // save() writes the unread input and the pending output into `saved`; call it only between two messages.
  // restore() does the reverse, before anything was received or sent. It takes the descriptors of held_fds(),
  // and `fd` (borrowed as by send()) for a pending reply that carries one. It returns false if the saved
  // bytes do not fit.
  void save(SavedSession& saved) const;
  [[nodiscard]] bool restore(const SavedSession& saved, std::span<ClientFd> held, int fd);

  // Ends the stream in both directions: the peer sees the end now, even if the socket is closed later.
  void shut_down();

  // The buffer of kMaxMessageBytes in which the caller composes the next message. Call it only while no
  // message of the same exchange is pending. Throws std::bad_alloc at the first use for the server's
  // exchanges.
  std::span<std::byte> output(Exchange exchange = Exchange::kOfClient);

  // Sends the first `bytes` of output(), with `fd` (borrowed until no message is pending; -1 means no
  // descriptor). Bytes that the socket does not take stay pending. Error (ends the session): errno.
  Result<void> send(std::size_t bytes, int fd = -1) { return send(Exchange::kOfClient, bytes, fd); }
  Result<void> send(Exchange exchange, std::size_t bytes, int fd = -1);

  bool output_pending() const {
    return output_pending(Exchange::kOfClient) || output_pending(Exchange::kOfServer);
  }
  bool output_pending(Exchange exchange) const { return of(exchange).begin != of(exchange).end; }

  // Goes on sending pending messages, with one sendmsg() for each. Errors as for send().
  Result<void> flush();

 private:
  struct Outgoing {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t begin = 0;
    std::size_t end = 0;
    int fd = -1;  // borrowed
  };

  Outgoing& of(Exchange exchange) { return outgoing_[static_cast<std::size_t>(exchange)]; }
  const Outgoing& of(Exchange exchange) const { return outgoing_[static_cast<std::size_t>(exchange)]; }
  Result<void> send_some(Outgoing& outgoing);
  Result<void> keep_fds(::msghdr& message);
  void close_fds();

  const std::shared_ptr<ReaperQueue> queue_;
  ClientFd socket_;

  std::unique_ptr<std::byte[]> input_;
  std::size_t input_begin_ = 0;
  std::size_t input_end_ = 0;
  std::size_t input_wanted_ = kBurstBytes;

  std::array<ClientFd, kMaxMessageFds> fds_;
  std::size_t fd_count_ = 0;
  bool fds_lent_ = false;  // whether the last message of next_message() holds them

  std::array<Outgoing, 2> outgoing_;  // by Exchange
};

}  // namespace pvrdma::vfio_user
