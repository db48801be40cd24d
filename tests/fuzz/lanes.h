// Lanes: what two hosts say to each other, in memory: the TCP transport's frame sockets at either end, and
// between them somebody who sees each direction's bytes and may change them.
//
// Nothing moves by itself: pump() takes what the ends have written, hands it to Between and lets them read.
//
// Thread: one.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "shard/loop.h"
#include "transport/tcp/frame_socket.h"
#include "transport/tcp/tcp_shared.h"
#include "transport/transport.h"

namespace pvrdma::fuzz {

using transport::HostId;
using transport::tcp::FrameSocket;
using Bytes = std::vector<std::byte>;

// Takes bytes of one direction of a connection; whatever it appends to `out` arrives.
class Between {
 public:
  virtual ~Between() = default;
  virtual void begin() {}  // a new connection
  virtual void pass(Bytes& in, Bytes& out) {
    out.insert(out.end(), in.begin(), in.end());
    in.clear();
  }
  // Whether the connection is to break now. Asked once for each pump.
  virtual bool breaks() { return false; }
};

// One end's stream. Its descriptor is a socket on which nothing ever comes: readiness is the pump's business.
class MemoryStream final : public transport::tcp::Stream {
 public:
  static constexpr std::size_t kRoomBytes = 64 * 1024;  // unread by the pump; more has to wait

  MemoryStream();
  int fd() const override { return sockets_[0].get(); }
  Handshake handshake() override { return Handshake::kDone; }
  transport::tcp::Transfer read_some(std::span<std::byte> into) override;
  transport::tcp::Transfer ready(std::size_t wanted) override;
  std::size_t read_into(const guestmem::SpanList& into) override;
  transport::tcp::Transfer write_some(std::span<const iovec> pieces) override;
  void push() override {}
  bool wants_write() const override { return false; }
  transport::tcp::Io flush() override { return transport::tcp::Io::kDone; }
  bool peer_is(std::string_view) const override { return true; }
  std::vector<std::string> peer_names() const override { return {}; }
  std::string trouble() const override { return "the lane was cut"; }

  Bytes in;   // for the end to read
  Bytes out;  // written by it
 private:
  std::array<Fd, 2> sockets_;
};

// One host: its fabric, and the frame sockets' surroundings.
struct LaneHost {
  LaneHost(HostId host_id, std::string name, shard::Loop& loop, const Clock& clock)
      : id(host_id), fabric(clock), shared({.host_name = std::move(name)}, loop, clock, fabric) {}
  HostId id;
  fabric::Fabric fabric;
  transport::tcp::TcpShared shared;
};

// One lane from the host that dialled it to the other, dialled again at the next pump when it broke.
class FuzzLane {
 public:
  // All borrowed. `forth` sees requests and datagrams, `back` responses.
  FuzzLane(LaneHost& dialler, LaneHost& acceptor, Between& forth, Between& back);

  FrameSocket* dialled() const { return up() ? &*connection_->dialler.socket : nullptr; }
  FrameSocket* accepted() const { return up() ? &*connection_->acceptor.socket : nullptr; }
  bool up() const;
  void cut() { connection_.reset(); }

  // True: bytes moved or the connection changed.
  bool pump(Instant now);

 private:
  struct End final : FrameSocket::User {
    End(LaneHost& its_host, LaneHost& its_peer, FrameSocket::Role its_role);
    void on_secured(Instant now) override;
    void on_greeting(const transport::wire::Frame& frame, Instant now) override;
    void on_drained() override { drained = true; }
    bool go_on(Instant now);
    LaneHost& host;
    LaneHost& peer;
    FrameSocket::Role role;
    MemoryStream* stream = nullptr;  // the socket's
    std::optional<FrameSocket> socket;
    bool drained = false;
  };
  struct Connection {
    Connection(LaneHost& dialling, LaneHost& accepting);
    End dialler;
    End acceptor;
    bool told = false;  // the dialler's fabric, that it stands
  };
  void dial(Instant now);

  LaneHost& dialler_;
  LaneHost& acceptor_;
  Between& forth_;
  Between& back_;
  std::unique_ptr<Connection> connection_;
};

// The lanes of one pair of adapters.
struct LanePair {
  FuzzLane* mine = nullptr;    // dialled by this host
  FuzzLane* theirs = nullptr;  // dialled by the other
};

// A host's transport: requests over the lanes it dialled, responses over those it accepted.
class LaneTransport final : public transport::Transport {
 public:
  explicit LaneTransport(LaneHost& host) : host_(host) {}

  // The lanes of what this host's `gid` sends; before anything is.
  void connect(const verbs::Gid& gid, LanePair lanes) { lanes_.push_back({gid, lanes}); }

  transport::PathKind kind() const override { return transport::PathKind::kTcp; }
  const transport::Counters& counters() const override { return host_.shared.counters; }
  void open(const transport::Place& place, const verbs::Connection& connection, transport::Traffic& traffic,
            verbs::PathSlot& slot) override;
  void send_datagram(const transport::Place& place, const verbs::Datagram& datagram,
                     const guestmem::SpanList& payload, transport::Traffic& traffic, Instant now) override;
  bool is_up(HostId host) const override;
  void flush(Instant now) override { transport::tcp::flush_all(host_.shared, now); }

 private:
  class LanePath;
  struct Route {
    verbs::Gid gid;
    LanePair lanes;
  };
  LanePair lanes_of(const verbs::Gid& gid) const;

  LaneHost& host_;
  std::vector<Route> lanes_;
};

}  // namespace pvrdma::fuzz
