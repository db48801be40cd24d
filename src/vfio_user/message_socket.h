// MessageSocket: whole vfio-user messages over a UNIX stream socket, both ways; used by server and client.
//
// Invariants:
//  * The input holds one burst of small messages or one partial message: a receive takes a burst only if the
//    input is empty, and exactly the missing bytes otherwise. So nothing is ever moved and the work of one
//    receive is bounded.
//  * File descriptors belong to the message that holds the last byte received: the kernel ends a recvmsg()
//    behind the bytes that descriptors came with, and each message is its own sendmsg() (QEMU, libvfio-user
//    and this file do that).
//  * There are two outputs, each of at most one message: for the exchanges that the client begins (its
//    requests, the server's replies) and for those that the server begins. A message under way is finished
//    before another begins; between messages the client's exchanges go first. While one of those is pending,
//    a server executes no further command: back-pressure.
//  * Descriptors received and not taken over end, and so does the socket: on the client's ReaperQueue, where
//    it has one. There is always room for as many as a message can bring, because the kernel closes in the
//    receiver's name what there is no room for.
// Buffers have the largest message's size and get memory as far as it is touched; that of the server's
// exchanges is allocated when it is first used.
//
// Thread: owned by one thread. Never blocks by itself: that is up to the socket (O_NONBLOCK, SO_RCVTIMEO).
// Source: docs/device.md 8.1.
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

// Valid until the next call to next_message() or receive(). A descriptor is taken over by moving it out.
struct Message {
  wire::Header header;
  std::span<const std::byte> payload;
  std::span<ClientFd> fds;  // at most kMaxMessageFds
};

// Who began the exchange that a message belongs to.
enum class Exchange { kOfClient, kOfServer };

class MessageSocket {
 public:
  // What one receive() takes when no message is under way: 56 doorbell writes.
  static constexpr std::size_t kBurstBytes = 2048;

  explicit MessageSocket(ClientFd socket, std::shared_ptr<ReaperQueue> queue = nullptr);

  int fd() const { return socket_.get(); }

  // One recvmsg(). False: nothing there (EAGAIN). Call it only after next_message() returned nothing.
  // Errors end the session: end of stream (code 0 between messages, EPROTO inside one), too many
  // descriptors (EPROTO), errno; EBUSY: those of before are still not closed.
  Result<bool> receive();

  // The next complete message, if there is one. Error (ends the session): EPROTO, a size that cannot be.
  Result<std::optional<Message>> next_message();

  // The header of what next_message() would return, as soon as the header alone is there.
  std::optional<wire::Header> next_header() const;

  // Bytes that were received and belong to no message that next_message() has given.
  bool holds_bytes() const { return input_begin_ != input_end_; }
  // Descriptors that were received, those of the last message included.
  bool holds_fds() const { return fd_count_ != 0; }
  // Those of messages that next_message() has not given.
  std::span<const ClientFd> held_fds() const { return std::span(fds_).first(fds_lent_ ? 0 : fd_count_); }

  // Between two messages: what it holds of either direction, into `saved`; and the other way round, before
  // anything was received or sent, with what held_fds() was, and `fd` (borrowed as send()'s) for a reply that
  // has one. False: more than it has room for.
  void save(SavedSession& saved) const;
  [[nodiscard]] bool restore(const SavedSession& saved, std::span<ClientFd> held, int fd);

  // Nothing more passes in either direction: the peer sees the end although the socket is closed later.
  void shut_down();

  // Where the next message to send is composed, kMaxMessageBytes. Only while none of the same exchange is
  // pending. Throws std::bad_alloc at the first use for the server's.
  std::span<std::byte> output(Exchange exchange = Exchange::kOfClient);

  // Sends the first `bytes` of output(), with `fd` (borrowed until nothing is pending; -1 = none). What the
  // socket does not take stays pending. Error (ends the session): errno.
  Result<void> send(std::size_t bytes, int fd = -1) { return send(Exchange::kOfClient, bytes, fd); }
  Result<void> send(Exchange exchange, std::size_t bytes, int fd = -1);

  bool output_pending() const {
    return output_pending(Exchange::kOfClient) || output_pending(Exchange::kOfServer);
  }
  bool output_pending(Exchange exchange) const { return of(exchange).begin != of(exchange).end; }

  // Goes on with what is pending: one sendmsg() for each message. Error: as send().
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
  bool fds_lent_ = false;  // to the message that next_message() returned last

  std::array<Outgoing, 2> outgoing_;  // by Exchange
};

}  // namespace pvrdma::vfio_user
