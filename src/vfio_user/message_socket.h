// MessageSocket: whole vfio-user messages over a UNIX stream socket, both ways; used by server and client.
//
// Invariants:
//  * The input holds one burst of small messages or one partial message: a receive takes a burst only if the
//    input is empty, and exactly the missing bytes otherwise. So nothing is ever moved and the work of one
//    receive is bounded.
//  * File descriptors belong to the message that holds the last byte received: the kernel ends a recvmsg()
//    behind the bytes that descriptors came with, and each message is its own sendmsg() (QEMU, libvfio-user
//    and this file do that).
//  * The output holds at most one message. While it is pending its owner takes no messages: back-pressure.
//  * Descriptors received and not taken over end, and so does the socket: on the client's ReaperQueue, where
//    it has one. There is always room for as many as a message can bring, because the kernel closes in the
//    receiver's name what there is no room for.
// Both buffers are allocated once, at the largest message's size; they get memory as far as it is touched.
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

namespace pvrdma::vfio_user {

// Valid until the next call to next_message() or receive(). A descriptor is taken over by moving it out.
struct Message {
  wire::Header header;
  std::span<const std::byte> payload;
  std::span<ClientFd> fds;  // at most kMaxMessageFds
};

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

  // Bytes that were received and belong to no message that next_message() has given.
  bool holds_bytes() const { return input_begin_ != input_end_; }
  // Descriptors that were received, those of the last message included.
  bool holds_fds() const { return fd_count_ != 0; }

  // Nothing more passes in either direction: the peer sees the end although the socket is closed later.
  void shut_down();

  // Where the next message to send is composed, kMaxMessageBytes. Only while nothing is pending.
  std::span<std::byte> output();

  // Sends the first `bytes` of output(), with `fd` (borrowed until nothing is pending; -1 = none). What the
  // socket does not take stays pending. Error (ends the session): errno.
  Result<void> send(std::size_t bytes, int fd = -1);

  bool output_pending() const { return output_begin_ != output_end_; }

  // Goes on with what is pending: one sendmsg(). Error: as send().
  Result<void> flush();

 private:
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

  std::unique_ptr<std::byte[]> output_;
  std::size_t output_begin_ = 0;
  std::size_t output_end_ = 0;
  int output_fd_ = -1;  // borrowed
};

}  // namespace pvrdma::vfio_user
