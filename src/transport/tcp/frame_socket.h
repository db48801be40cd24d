// FrameSocket: one TCP connection between two hosts, whoever dialled it: frames out and in, sequence numbers,
// keep-alive.
//
// Out: heads and small payloads are gathered and go out at flush(); a large payload goes to the socket
// straight from guest memory, and only what the socket left of it is copied. Its last packet may wait for the
// next message until flush(). In: heads come through a small staging buffer; payloads that do not fit there
// are handed on in pieces, as they arrive, straight into guest memory.
//
// A connection that breaks, at any moment, its own calls to engines included, says so in broken() and is
// destroyed by its owner in the next turn of Tcp. Requests and datagrams travel from the dialler, responses
// from the acceptor. An acceptor whose responses are not taken stops reading requests; a dialler always
// reads.
//
// Thread: shard-owned.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "shard/loop.h"
#include "transport/tcp/output.h"
#include "transport/tcp/stream.h"
#include "transport/tcp/tcp_shared.h"
#include "transport/wire/format.h"

namespace pvrdma::transport::tcp {

inline constexpr Duration kHandshakeTime = std::chrono::seconds(3);  // TCP, TLS and greeting together
inline constexpr Duration kPingPause = std::chrono::seconds(1);
inline constexpr Duration kSilenceMax = std::chrono::seconds(3);
inline constexpr std::size_t kBusyBytes = 64 * 1024;        // unsent: no request any more
inline constexpr std::size_t kGsiBytesMax = 1024 * 1024;    // unsent: not even connection management
inline constexpr std::size_t kPauseBytes = 1024 * 1024;     // unsent responses: no request is read any more
inline constexpr std::size_t kOutputMax = 4 * 1024 * 1024;  // unsent: no response any more
inline constexpr std::size_t kGatherBytes = 16 * 1024;      // payloads up to here are copied

class FrameSocket final : private shard::FdHandler {
 public:
  enum class Role : std::uint8_t { kDialler, kAcceptor };

  // Who made it. May close the connection in these calls, not destroy it.
  class User {
   public:
    virtual ~User() = default;
    // TCP and TLS stand. A dialler says hello.
    virtual void on_secured(Instant now) = 0;
    // An acceptor gets Hello, a dialler Welcome or Reject, once. It answers or closes.
    virtual void on_greeting(const wire::Frame& frame, Instant now) = 0;
    // Room again after there was none.
    virtual void on_drained() = 0;
  };

  // A dialler's socket may still be connecting. `shared` and `user` are borrowed and outlive this.
  FrameSocket(TcpShared& shared, User& user, Role role, std::unique_ptr<Stream> stream);
  ~FrameSocket() override;
  FrameSocket(const FrameSocket&) = delete;
  FrameSocket& operator=(const FrameSocket&) = delete;

  // Once. Error: its descriptor cannot be watched.
  Result<void> start(Instant now);
  // The same; what cannot be started is broken.
  void start_or_break(Instant now);

  bool is_up() const { return state_ == State::kUp; }
  bool broken() const { return state_ == State::kBroken; }
  // Why it broke: one clause. Empty before.
  const std::string& trouble() const { return trouble_; }
  // Whether one of the two hosts wanted it to end.
  bool ended_in_order() const { return in_order_; }
  const Stream& stream() const { return *stream_; }

  // Sends Hello or Welcome.
  void greet(const wire::Hello& hello, Instant now);
  void greet(const wire::Welcome& welcome, Instant now);
  // The greeting is complete: messages may flow. What comes in is from `peer`.
  void establish(HostId peer, Instant now);

  // After Welcome was sent: the connection goes on elsewhere, and this is broken, in order. Null: it was not
  // sent in full, or the peer did not wait for it.
  std::unique_ptr<Stream> release();

  // Answers Hello with no, and closes.
  void reject(wire::RejectReason reason, std::string_view sentence, Instant now);
  // Says goodbye if that is possible, and closes.
  void close(wire::GoodbyeReason reason, std::string_view sentence, Instant now);
  // Closes without a word.
  void drop(std::string trouble);

  // is_up() only. Whether a request with so many bytes may be sent now. False: User::on_drained() follows.
  bool has_room(std::uint32_t payload_bytes);
  // is_up() only. The payload's bytes are as many as the message says.
  void send(SegmentId segment, const verbs::Request& request, const guestmem::SpanList& payload, Instant now);
  // False: too much waits already, and it was dropped.
  bool send(SegmentId segment, const verbs::Response& response, const guestmem::SpanList& payload,
            Instant now);
  bool send(SegmentId segment, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
            Instant now);
  void flush(Instant now);
  // For flush_all(), which has it in its list.
  void flush_gathered(Instant now);

  // For Tcp's turn, which has taken it from shared_.unsecured: one step of the TLS handshake.
  void secure_now(Instant now);
  // Goes on reading where it stopped.
  void go_on(Instant now);
  void on_time(Instant now);
  Instant next_deadline() const;

 private:
  enum class State : std::uint8_t { kConnecting, kSecuring, kGreeting, kUp, kBroken };
  enum class Step : std::uint8_t { kMore, kFill, kBlocked };

  // Does it, or breaks off where there is no memory: as if the network had broken.
  template <typename Action>
  void or_break(Action action);

  void on_fd_ready(int fd, shard::Readiness ready) override;
  void on_ready(shard::Readiness ready, Instant now);
  void flush_now(Instant now);
  void do_time(Instant now);
  void handshake(Instant now);
  std::string what() const override;
  void finish_connect(Instant now);
  void secure(Instant now);
  void update_interest();

  // Output (frame_socket.cc).
  void queue(std::span<const std::byte> head, const guestmem::SpanList& payload, Instant now);
  void write_through(std::span<const std::byte> head, const guestmem::SpanList& payload, Instant now);
  void wrote(Instant now);
  void flush_later();
  void blocked();
  void farewell(std::span<const std::byte> head, Instant now);
  void break_off(std::string trouble);

  // Input (frame_socket_input.cc).
  std::span<std::byte> staged() {
    return std::span(staging_).subspan(staged_begin_, staged_end_ - staged_begin_);
  }
  void receive(Instant now);
  void read_batch(Instant now);
  bool fill(Instant now);
  Step take_head(Instant now);
  Step take_frame(Instant now);
  Step take_payload(Instant now);
  Step take_from_stream(Instant now);
  void deliver(std::uint32_t bytes, verbs::Payload& payload, Instant now);
  void finish_payload(std::uint32_t bytes);
  void refuse(const wire::Decoded& decoded, Instant now);
  void refuse(std::string_view why, Instant now);
  void stream_ended(Io io);

  TcpShared& shared_;
  User& user_;
  const Role role_;
  std::unique_ptr<Stream> stream_;  // null: released
  State state_;
  HostId peer_{};
  shard::Interest interest_ = shard::Interest::kRead;
  bool watched_ = false;
  bool unsecured_ = false;  // in shared_.unsecured
  bool in_order_ = false;
  std::string trouble_;

  Instant started_{};
  Instant last_heard_{};  // a byte came, or left while reading pauses
  Instant last_sent_{};

  Output output_;
  std::uint64_t next_send_ = 0;
  bool blocked_ = false;    // the socket takes no more until it is writable
  bool wanted_ = false;     // room, in vain, since on_drained()
  bool unflushed_ = false;  // in shared_.unflushed

  std::array<std::byte, 8192> staging_;
  std::size_t staged_begin_ = 0;
  std::size_t staged_end_ = 0;
  std::size_t head_wanted_ = wire::kHeaderBytes;
  wire::Frame incoming_;
  std::uint64_t next_receive_ = 0;
  bool in_payload_ = false;  // of incoming_
  bool skipping_ = false;    // nobody here wants incoming_
  bool paused_ = false;      // until responses have drained
  bool drained_ = false;     // the kernel has no more, as far as this batch knows
  bool unfinished_ = false;  // in shared_.unfinished
  std::uint32_t payload_total_ = 0;
  std::uint32_t payload_done_ = 0;
  std::uint64_t batch_bytes_ = 0;
};

// Sends what all connections have gathered.
void flush_all(TcpShared& shared, Instant now);

}  // namespace pvrdma::transport::tcp
