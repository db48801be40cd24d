// DialledLane: one of the lanes that this host dials to a peer: dials, greets, and dials again after a pause
// when it breaks. Carries requests and datagrams out and their responses in.
//
// Thread: shard-owned.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "transport/tcp/frame_socket.h"
#include "transport/tcp/tcp_shared.h"

namespace pvrdma::transport::tcp {

inline constexpr Duration kRedialFirst = std::chrono::milliseconds(50);
inline constexpr Duration kRedialMax = std::chrono::seconds(1);

class DialledLane final : private FrameSocket::User {
 public:
  // What has happened since the last turn.
  struct News {
    bool ready = false;     // takes requests again, or for the first time
    bool restored = false;  // a new connection took the place of one that was up
  };

  // `shared` is borrowed and outlives this.
  DialledLane(TcpShared& shared, std::uint16_t index);

  // Dials the peer, and again whenever the connection ends. Ends the connection there may be.
  void dial(const TcpPeer& peer, Instant now);
  // Neither keeps nor makes a connection.
  void rest(wire::GoodbyeReason reason, std::string_view sentence, Instant now);

  bool is_up() const { return socket_ != nullptr && socket_->is_up(); }
  // Why it is down: one clause. Empty when it is up or still trying for the first time.
  const std::string& trouble() const { return trouble_; }
  std::uint64_t reconnects() const { return reconnects_; }

  // Whether a request with so many bytes may be sent now. False: News::ready follows.
  bool has_room(std::uint32_t payload_bytes) const;
  void send(SegmentId segment, const verbs::Request& request, const guestmem::SpanList& payload, Instant now);
  // False: dropped.
  bool send(SegmentId segment, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
            Instant now);

  // Buries a broken connection, dials when it is time, tells what happened.
  News turn(Instant now);
  void on_time(Instant now);
  Instant next_deadline() const;

 private:
  void dial_now(Instant now);
  void failed(std::string_view trouble, Instant now);
  void try_dial(Instant now);
  void on_secured(Instant now) override;
  void on_greeting(const wire::Frame& frame, Instant now) override;
  void on_drained() override;
  void on_welcome(const wire::Welcome& welcome, Instant now);
  void on_reject(const wire::Reject& reject);

  TcpShared& shared_;
  const std::uint16_t index_;
  std::optional<TcpPeer> peer_;  // none: rests
  std::unique_ptr<FrameSocket> socket_;
  wire::HelloId id_{};
  Instant redial_at_ = Instant::never();
  Duration pause_ = kRedialFirst;
  Instant up_since_ = Instant::never();
  bool was_up_ = false;
  News news_;
  std::string trouble_;
  std::uint64_t reconnects_ = 0;
};

}  // namespace pvrdma::transport::tcp
