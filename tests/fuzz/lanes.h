// Lanes between two hosts, in memory. Each end has the TCP transport's frame sockets. Between them, an object
// sees each direction's bytes and may change them.
//
// Nothing moves by itself: pump() takes the bytes that the ends have written, passes them to Between, and
// lets the ends read.
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

// Passes the bytes of one direction of a connection on. Only the bytes that it appends to `out` arrive.
class Between {
 public:
  virtual ~Between() = default;
  virtual void begin() {}  // a new connection
  virtual void pass(Bytes& in, Bytes& out) {
    out.insert(out.end(), in.begin(), in.end());
    in.clear();
  }
  // Whether the connection must break now. Called once for each pump.
  virtual bool breaks() { return false; }
};

// One end's stream. Its descriptor is a socket on which nothing ever arrives; the pump calls the end instead.
class MemoryStream final : public transport::tcp::Stream {
 public:
  static constexpr std::size_t kRoomBytes = 64 * 1024;  // bytes that the pump has not taken; more must wait

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

  Bytes in;   // bytes for the end to read
  Bytes out;  // bytes that the end has written
 private:
  std::array<Fd, 2> sockets_;
};

// One host: its fabric, and the shared part of its frame sockets.
struct LaneHost {
  LaneHost(HostId host_id, std::string name, shard::Loop& loop, const Clock& clock)
      : id(host_id), fabric(clock), shared({.host_name = std::move(name)}, loop, clock, fabric) {}
  HostId id;
  fabric::Fabric fabric;
  transport::tcp::TcpShared shared;
};

// One lane from the host that dials it to the other. If it breaks, it is dialled again at the next pump.
class FuzzLane {
 public:
  // All are borrowed. `forth` sees requests and datagrams, `back` sees responses.
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
    MemoryStream* stream = nullptr;  // owned by `socket`
    std::optional<FrameSocket> socket;
    bool drained = false;
  };
  struct Connection {
    Connection(LaneHost& dialling, LaneHost& accepting);
    End dialler;
    End acceptor;
    bool told = false;  // whether the dialler's fabric was told that the lane is up
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
  FuzzLane* theirs = nullptr;  // dialled by the other host
};

// A host's transport. It sends requests over the lanes that it has dialled, and responses over those that it
// has accepted.
class LaneTransport final : public transport::Transport {
 public:
  explicit LaneTransport(LaneHost& host) : host_(host) {}

  // Sets the lanes for messages from this host's `gid`. Called before any is sent.
  void connect(const verbs::Gid& gid, LanePair lanes) { lanes_.push_back({gid, lanes}); }

  transport::PathKind kind() const override { return transport::PathKind::kTcp; }
  const transport::Counters& counters() const override { return host_.shared.counters; }
  void open(const transport::Place& place, const verbs::Connection& connection, transport::Traffic& traffic,
            verbs::PathSlot& slot) override;
  bool send_datagram(const transport::Place& place, const verbs::Datagram& datagram,
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
