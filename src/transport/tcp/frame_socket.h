// FrameSocket: one TCP connection between two hosts, whoever dialled it. It handles frames, sequence numbers
// and keep-alive.
//
// Output: heads and small payloads are gathered and leave at flush(). A large payload goes to the socket
// straight from guest memory, and only the part that the socket leaves is copied. The last packet of a large
// payload may wait for the next message until flush().
//
// Input: heads come through a small staging buffer. Payloads that do not fit there are handed on in pieces as
// they arrive, straight into guest memory.
//
// A connection may break at any moment, even while it calls an engine. It then reports broken(), and its
// owner destroys it in the next turn of Tcp. Requests and datagrams travel from the dialler, responses from
// the acceptor. If the peer does not take its responses, an acceptor stops reading requests; a dialler always
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

inline constexpr Duration kHandshakeTime = std::chrono::seconds(3);  // for TCP, TLS and greeting together
inline constexpr Duration kPingPause = std::chrono::seconds(1);
// A peer pings each kPingPause, so one of which nothing is heard for longer is in trouble. That is told.
inline constexpr Duration kQuietTime = std::chrono::milliseconds(1250);
inline constexpr Duration kSilenceMax = std::chrono::seconds(3);
inline constexpr std::size_t kBusyBytes = 64 * 1024;  // unsent bytes above which no request is sent
// Senders of datagrams wait when a lane is busy. Each may have sent one more, and up to this many unsent
// bytes none of those is lost.
inline constexpr std::size_t kDatagramBytesMax = 512 * 1024;
inline constexpr Duration kStallTime = std::chrono::milliseconds(100);
// Unsent bytes above which not even connection management is sent.
inline constexpr std::size_t kGsiBytesMax = 1024 * 1024;
// Unsent bytes of responses above which no request is read.
inline constexpr std::size_t kPauseBytes = 1024 * 1024;
inline constexpr std::size_t kOutputMax = 4 * 1024 * 1024;  // unsent bytes above which no response is sent
inline constexpr std::size_t kGatherBytes = 16 * 1024;      // payloads up to this size are copied

class FrameSocket final : private shard::FdHandler {
 public:
  enum class Role : std::uint8_t { kDialler, kAcceptor };

  // The owner. May close the connection in these calls, but must not destroy it.
  class User {
   public:
    virtual ~User() = default;
    // TCP and TLS are set up. A dialler sends hello.
    virtual void on_secured(Instant now) = 0;
    // Called once: with Hello at an acceptor, with Welcome or Reject at a dialler. The user answers or
    // closes.
    virtual void on_greeting(const wire::Frame& frame, Instant now) = 0;
    // There is room again.
    virtual void on_drained() = 0;
  };

  // A dialler's socket may still be connecting. `shared` and `user` are borrowed and outlive this socket.
  FrameSocket(TcpShared& shared, User& user, Role role, std::unique_ptr<Stream> stream);
  ~FrameSocket() override;
  FrameSocket(const FrameSocket&) = delete;
  FrameSocket& operator=(const FrameSocket&) = delete;

  // Call it once. Error: the descriptor cannot be watched.
  Result<void> start(Instant now);
  // As start(), but a failure breaks the connection.
  void start_or_break(Instant now);
  // Called instead of start() for an acceptor whose Hello another connection has read. The user answers it
  // now. Errors: as start().
  Result<void> resume(Instant now);

  bool is_up() const { return state_ == State::kUp; }
  // Whether nothing was heard for kQuietTime when on_time() last looked.
  bool is_quiet() const { return is_quiet_; }
  bool broken() const { return state_ == State::kBroken; }
  // Why it broke: one clause. Empty while it works.
  const std::string& trouble() const { return trouble_; }
  // Whether one of the two hosts ended it on purpose.
  bool ended_in_order() const { return in_order_; }
  // Whether the peer ended it because its daemon stops.
  bool peer_stops() const { return peer_stops_; }
  const Stream& stream() const { return *stream_; }
  Instant started() const { return started_; }

  // Sends Hello or Welcome.
  void greet(const wire::Hello& hello, Instant now);
  void greet(const wire::Welcome& welcome, Instant now);
  // The greeting is complete, and messages may flow. Input comes from `peer`.
  void establish(HostId peer, Instant now);

  // Called when Hello has arrived, before or after Welcome: the stream continues elsewhere, and this
  // connection is broken, in order. Null: Welcome was not sent in full, or the peer did not wait for it.
  std::unique_ptr<Stream> release();

  // Refuses Hello and closes.
  void reject(wire::RejectReason reason, std::string_view sentence, Instant now);
  // Sends Goodbye if possible and closes.
  void close(wire::GoodbyeReason reason, std::string_view sentence, Instant now);
  // Closes without Goodbye.
  void drop(std::string trouble);

  // Only while is_up(). Whether a request with a payload of this size may be sent now. If not,
  // User::on_drained() follows.
  bool has_room(std::uint32_t payload_bytes);
  // Only while is_up(). The payload has the size that the message says.
  void send(SegmentId segment, const verbs::Request& request, const guestmem::SpanList& payload, Instant now);
  // False: it was dropped, because too many bytes are unsent.
  bool send(SegmentId segment, const verbs::Response& response, const guestmem::SpanList& payload,
            Instant now);
  // Whether a datagram may be sent without waiting. If not, on_drained() follows. A peer that has taken
  // nothing for kStallTime is not waited for: that would hold up the sender's datagrams to other hosts.
  bool takes_datagrams(Instant now);
  bool send(SegmentId segment, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
            Instant now);
  void flush(Instant now);
  // For flush_all(), whose list contains this connection.
  void flush_gathered(Instant now);

  // For Tcp's turn, which has taken this connection from shared_.unsecured: one step of the TLS handshake.
  void secure_now(Instant now);
  // Continues reading where it stopped.
  void go_on(Instant now);
  void on_time(Instant now);
  Instant next_deadline() const;

 private:
  enum class State : std::uint8_t { kConnecting, kSecuring, kGreeting, kUp, kBroken };
  enum class Step : std::uint8_t { kMore, kFill, kBlocked };

  // Runs `action`. Without memory for it, breaks the connection as if the network had failed.
  template <typename Action>
  void or_break(Action action);

  void on_fd_ready(int fd, shard::Readiness ready) override;
  void on_ready(shard::Readiness ready, Instant now);
  void flush_now(Instant now);
  void do_time(Instant now);
  void handshake(Instant now);
  std::string what() const override;
  Result<void> watch(Instant now);
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
  bool peer_stops_ = false;
  std::string trouble_;

  Instant started_{};
  Instant last_heard_{};  // when a byte last came, or left while reading pauses
  Instant last_sent_{};
  bool is_quiet_ = false;

  Output output_;
  std::uint64_t next_send_ = 0;
  bool blocked_ = false;    // the socket accepts no more until it is writable
  bool wanted_ = false;     // somebody asked for room and got none since on_drained()
  bool unflushed_ = false;  // in shared_.unflushed

  std::array<std::byte, 8192> staging_;
  std::size_t staged_begin_ = 0;
  std::size_t staged_end_ = 0;
  std::size_t head_wanted_ = wire::kHeaderBytes;
  wire::Frame incoming_;
  std::uint64_t next_receive_ = 0;
  bool in_payload_ = false;  // of incoming_
  bool skipping_ = false;    // nobody here takes incoming_
  bool paused_ = false;      // until responses have drained
  bool drained_ = false;     // as far as this batch knows, the kernel has no more input
  bool unfinished_ = false;  // in shared_.unfinished
  std::uint32_t payload_total_ = 0;
  std::uint32_t payload_done_ = 0;
  std::uint64_t batch_bytes_ = 0;
};

// Sends the gathered output of all connections.
void flush_all(TcpShared& shared, Instant now);

}  // namespace pvrdma::transport::tcp
