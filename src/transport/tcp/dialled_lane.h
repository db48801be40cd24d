// DialledLane: one of the lanes that this host dials to a peer. It dials, greets, and after a break pauses
// and dials again. It sends requests and datagrams, and takes their responses.
//
// Thread: shard-owned.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "transport/tcp/frame_socket.h"
#include "transport/tcp/held_datagrams.h"
#include "transport/tcp/tcp_shared.h"

namespace pvrdma::transport::tcp {

inline constexpr Duration kRedialFirst = std::chrono::milliseconds(50);
inline constexpr Duration kRedialMax = std::chrono::seconds(1);

class DialledLane final : private FrameSocket::User {
 public:
  // What has happened since the last turn.
  struct News {
    bool ready = false;     // accepts requests, again or for the first time
    bool restored = false;  // a new connection replaced one that was up
  };

  // `shared` is borrowed and outlives this.
  DialledLane(TcpShared& shared, std::uint16_t index);

  // For a lane that rests, as a new one does. Dials the peer, again whenever the connection ends.
  void dial(const TcpPeer& peer, Instant now);
  // Dials now instead of at the end of a pause, because the peer has shown that it runs. Allocates nothing.
  void dial_soon(Instant now);
  // Ends the connection and dials no more.
  void rest(wire::GoodbyeReason reason, std::string_view sentence, Instant now);
  // As rest(), because nothing needs the lane. To dial it again is no reconnect.
  void rest_unneeded(Instant now);

  bool is_up() const { return socket_ != nullptr && socket_->is_up(); }
  // Whether it is being dialled, and that has not failed yet.
  bool is_opening() const { return peer_ && !is_up() && trouble_.empty(); }
  // Whether the peer's daemon said that it stops, and no connection has come up since.
  bool peer_stops() const { return peer_stops_; }
  bool is_quiet() const { return socket_ != nullptr && socket_->is_quiet(); }
  // Why it is down: one clause. Empty while it is up or dials for the first time.
  const std::string& trouble() const { return trouble_; }
  std::uint64_t reconnects() const { return reconnects_; }

  // Whether a request with a payload of this size may be sent now. If not, News::ready follows.
  bool has_room(std::uint32_t payload_bytes) const;
  void send(SegmentId segment, const verbs::Request& request, const guestmem::SpanList& payload, Instant now);
  // Whether a datagram may be sent without waiting. If not, News::ready follows.
  bool takes_datagrams(Instant now) const;
  // False: the datagram was dropped. It is held if the lane is not up, but has not failed either.
  bool send(SegmentId segment, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
            Instant now);

  // Destroys a broken connection, dials when it is time, and reports what happened.
  News turn(Instant now);
  void on_time(Instant now);
  Instant next_deadline() const;

 private:
  void dial_now(Instant now);
  void failed(std::string_view trouble, Instant now);
  void drop_held() { shared_.errors.datagrams_dropped += held_.drop(); }
  void try_dial(Instant now);
  void on_secured(Instant now) override;
  void on_greeting(const wire::Frame& frame, Instant now) override;
  void on_drained() override;
  void on_welcome(const wire::Welcome& welcome, Instant now);
  void on_reject(const wire::Reject& reject);

  TcpShared& shared_;
  const std::uint16_t index_;
  std::optional<TcpPeer> peer_;  // empty: it does not dial
  std::unique_ptr<FrameSocket> socket_;
  wire::HelloId id_{};
  Instant redial_at_ = Instant::never();
  Duration pause_ = kRedialFirst;
  Instant up_since_ = Instant::never();
  bool was_up_ = false;
  bool was_unneeded_ = false;  // since it was up
  bool peer_stops_ = false;
  HeldDatagrams held_;
  News news_;
  std::string trouble_;
  std::uint64_t reconnects_ = 0;
};

}  // namespace pvrdma::transport::tcp
