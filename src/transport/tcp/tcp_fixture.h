// Shared by Tcp's tests: a World (a shard on its own thread, with a clock that only the test moves), Hosts in
// it (a Tcp of a host's shard 0 or of another one, and an Inbound that acts as the engines), and RawPeer, an
// end of a connection that the test drives directly.
//
// Addresses are 127.x.y.n with x and y from the process id, so that tests can run in parallel. Only the
// shard's thread accesses a World's objects: use on_shard() and wait().
#pragma once

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <cstring>
#include <deque>
#include <fmt/core.h>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <netinet/tcp.h>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "shard/ask.h"
#include "shard/loop.h"
#include "support/manual_clock.h"
#include "transport/tcp/lane_hash.h"
#include "transport/tcp/tcp.h"
#include "transport/wire/format.h"

namespace pvrdma::transport::tcp {

using Bytes = std::vector<std::byte>;

// What a test runs with, by turns.
enum class Security { kPlain, kTls };

inline constexpr SegmentId kSegment{.dvs = 7, .vlan = 11};
inline constexpr std::uint16_t kTestPort = 28250;

inline IpAddress address_of(std::uint32_t n) {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  return IpAddress::parse(fmt::format("127.{}.{}.{}", 64 + (pid >> 8) % 128, pid % 256, n)).value();
}

inline verbs::Endpoint endpoint(std::uint8_t host, std::uint32_t qpn) {
  verbs::Endpoint end{.qpn = verbs::Qpn(qpn)};
  end.gid.bytes[0] = 0xfe;
  end.gid.bytes[15] = host;
  return end;
}

// Bytes that differ by position and seed.
inline Bytes pattern(std::size_t bytes, std::uint32_t seed) {
  Bytes out(bytes);
  std::uint32_t state = seed * 2654435761U + 1;
  for (std::byte& byte : out) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  return out;
}

// Memory in `pieces` pieces with gaps between them, like guest memory.
class Scattered {
 public:
  Scattered(const Bytes& bytes, std::size_t pieces) : memory_(bytes.size() + pieces) {
    const std::size_t each = bytes.size() / pieces + 1;
    std::size_t at = 0;
    for (std::size_t from = 0; from < bytes.size(); from += each) {
      const std::size_t size = std::min(each, bytes.size() - from);
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(from), size,
                  memory_.begin() + static_cast<std::ptrdiff_t>(at));
      EXPECT_TRUE(spans_.append(memory_.data() + at, size));
      at += size + 1;
    }
  }
  const guestmem::SpanList& spans() const { return spans_; }

 private:
  Bytes memory_;
  guestmem::SpanList spans_;
};

class World {
 public:
  World() : World(std::make_shared<test::ManualClock>()) {}
  // Several shards share a clock.
  explicit World(std::shared_ptr<test::ManualClock> clock, std::size_t mailbox_tasks = 1024)
      : clock_(std::move(clock)),
        loop_(shard::Loop::create({.spin = Duration{0}, .mailbox_tasks = mailbox_tasks}, *clock_).value()) {
    thread_ = std::thread([this] { loop_->run(); });
  }
  ~World() {
    loop_->stop();
    thread_.join();
  }

  shard::Loop& loop() { return *loop_; }
  test::ManualClock& clock() { return *clock_; }

  template <typename Call>
  auto on_shard(Call call) {
    if constexpr (std::is_void_v<std::invoke_result_t<Call>>) {
      shard::ask(*loop_, std::chrono::minutes(1), [&call] { return call(), true; }).value();
    } else {
      return shard::ask(*loop_, std::chrono::minutes(1), [&call] { return call(); }).value();
    }
  }

  // Advances the clock by a millisecond each turn until `done`, for at most `turns` turns.
  [[nodiscard]] bool wait(const std::function<bool()>& done, int turns = 20000) {
    for (int i = 0; i < turns; ++i) {
      if (on_shard(done)) return true;
      clock_->advance(std::chrono::milliseconds(1));
    }
    return false;
  }
  void pass(int milliseconds) {
    EXPECT_FALSE(wait([] { return false; }, milliseconds));
  }

 private:
  const std::shared_ptr<test::ManualClock> clock_;
  std::unique_ptr<shard::Loop> loop_;
  std::thread thread_;
};

struct Message {
  HostId from;
  SegmentId segment;
  wire::Body body;
  Bytes bytes;
};

// A host, and a record of what its engines were told. It acts as one engine: it assembles each payload into a
// `message` and answers as configured.
class Host final : public Inbound {
 public:
  Host(World& world, std::uint8_t number, TcpOptions options = {}) : world_(world), number_(number) {
    options.host_name = name();
    shard_ = options.shard;
    lanes_ = options.lanes;
    settings_.address = address();
    settings_.port = kTestPort;
    auto made = world_.on_shard([&] { return Tcp::create(options, world_.loop(), world_.clock(), *this); });
    tcp_ = std::move(made).value();
  }
  ~Host() override {
    world_.on_shard([this] { tcp_.reset(); });
  }

  std::string name() const { return fmt::format("esx{}", number_); }
  HostId id() const { return HostId(number_ + 100U * shard_.value); }
  IpAddress address() const { return address_of(number_); }
  TcpPeer as_peer() const {
    return {.id = id(), .name = name(), .address = address(), .port = kTestPort, .shard = shard_};
  }
  TcpSettings& settings() { return settings_; }

  void add_peer(const TcpPeer& peer) { settings_.peers.push_back(peer); }
  void apply() {
    world_.on_shard([this] { tcp_->configure(settings_); });
  }

  // The following functions must be called on the shard.
  Tcp& tcp() { return *tcp_; }
  static Place place(HostId to) { return {.host = to, .segment = kSegment}; }
  // The path of the connection that a message belongs to.
  verbs::Path& path(HostId to, const verbs::Endpoint& from, const verbs::Endpoint& peer) {
    tcp_->open(place(to), {from, peer}, traffic, path_);
    return *path_;
  }
  // A path that stays open until close_paths(), which also closes the one of path().
  void keep_path(HostId to) {
    tcp_->open(place(to), {endpoint(number_, 1), endpoint(static_cast<std::uint8_t>(to.value), 1)}, traffic,
               *kept_paths_.emplace_back(std::make_unique<verbs::PathSlot>()));
  }
  void close_paths() {
    kept_paths_.clear();
    path_.close();
  }
  // False: there was no room, and it was not sent.
  bool send(HostId to, const verbs::Request& request, const guestmem::SpanList& payload) {
    const Instant now = world_.clock().now();
    verbs::Path& way = path(to, request.from, request.to);
    if (way.room(std::max(1U, wire::payload_bytes(request)), now) == 0) return false;
    way.send_request(request, payload, now);
    return true;
  }
  void send(HostId to, const verbs::Response& response, const guestmem::SpanList& payload) {
    path(to, response.from, response.to).send_response(response, payload, world_.clock().now());
  }
  // False: there is no room for another one.
  bool send(HostId to, const verbs::Datagram& datagram, const guestmem::SpanList& payload) {
    return tcp_->send_datagram(place(to), datagram, payload, traffic, world_.clock().now());
  }
  const TcpPeerState* state(HostId of) {
    const auto peer = std::ranges::find(settings_.peers, of, &TcpPeer::id);
    if (peer == settings_.peers.end()) return nullptr;
    states_ = tcp_->peers();
    const auto state = std::ranges::find_if(
        states_, [&](const TcpPeerState& of) { return of.name == peer->name && of.shard == peer->shard; });
    return state == states_.end() ? nullptr : &*state;
  }
  bool all_up(HostId with) {
    const TcpPeerState* found = state(with);
    return found != nullptr && found->lanes_up == lanes_;
  }

  // A write that the peer assembles. It is sent when the lane has room, after earlier ones.
  struct Outgoing {
    HostId to;
    verbs::Request request;
    Bytes bytes;
  };
  void post(Outgoing outgoing) {
    outgoing_.push_back(std::move(outgoing));
    pump();
  }
  void pump() {
    while (!outgoing_.empty()) {
      Outgoing& next = outgoing_.front();
      const Scattered payload(next.bytes, 3);
      if (!send(next.to, next.request, payload.spans())) {
        ++busy;
        break;
      }
      outgoing_.pop_front();
    }
    tcp_->flush(world_.clock().now());
  }
  std::size_t waiting() const { return outgoing_.size(); }

  Traffic traffic;
  std::vector<Message> messages;
  std::size_t pieces = 0;
  std::size_t busy = 0;
  int ready = 0;
  int restored = 0;
  int up_changes = 0;
  Delivery verdict = Delivery::kDelivered;
  bool takes = true;                                               // false: takes no payload
  std::function<void(const verbs::Request&, bool last)> on_asked;  // after each piece

 private:
  Delivery on_request(HostId from, PathKind, SegmentId segment, const verbs::Request& request,
                      verbs::Payload& payload, Instant) override {
    ++pieces;
    if (verdict != Delivery::kDelivered) return verdict;
    EXPECT_EQ(payload.bytes(), wire::payload_bytes(request));
    const bool first = !partial_ || partial_->from != from || request.is_read_or_atomic() ||
                       std::get<verbs::Request>(partial_->body).number != request.number;
    take(first, Message{from, segment, request, {}}, payload, request);
    if (on_asked) on_asked(request, request.is_last());
    return Delivery::kDelivered;
  }
  Delivery on_response(HostId from, SegmentId segment, const verbs::Response& response,
                       verbs::Payload& payload, Instant) override {
    ++pieces;
    if (verdict != Delivery::kDelivered) return verdict;
    Bytes bytes(static_cast<std::size_t>(payload.bytes()));
    guestmem::SpanList target;
    EXPECT_TRUE(target.append(bytes.data(), bytes.size()));
    if (takes && !payload.copy_to(target)) return Delivery::kDelivered;
    if (messages.empty() || !continues(messages.back(), response)) {
      messages.push_back(Message{from, segment, response, std::move(bytes)});
    } else {
      messages.back().bytes.insert(messages.back().bytes.end(), bytes.begin(), bytes.end());
      std::get<verbs::Response>(messages.back().body).bytes += response.bytes;
    }
    return Delivery::kDelivered;
  }
  Delivery on_datagram(HostId from, SegmentId segment, const verbs::Datagram& datagram,
                       const guestmem::SpanList& payload, Instant) override {
    if (verdict != Delivery::kDelivered) return verdict;
    Bytes bytes(static_cast<std::size_t>(payload.bytes()));
    guestmem::SpanList target;
    EXPECT_TRUE(target.append(bytes.data(), bytes.size()));
    guestmem::copy(target, payload, bytes.size());
    messages.push_back(Message{from, segment, datagram, std::move(bytes)});
    return Delivery::kDelivered;
  }
  void on_ready(HostId, Instant) override {
    ++ready;
    pump();
  }
  void on_restored(HostId, Instant) override { ++restored; }
  void on_up_changed(HostId, Instant) override { ++up_changes; }

  void take(bool first, Message message, verbs::Payload& payload, const verbs::Request& request) {
    if (first) partial_ = std::move(message);
    Bytes& bytes = partial_->bytes;
    const std::size_t before = bytes.size();
    bytes.resize(before + static_cast<std::size_t>(payload.bytes()));
    // Two pieces of memory, like a receive with two SGEs.
    const std::size_t half = static_cast<std::size_t>(payload.bytes()) / 2;
    Bytes front(half);
    Bytes back(bytes.size() - before - half);
    guestmem::SpanList target;
    EXPECT_TRUE(target.append(front.data(), front.size()) && target.append(back.data(), back.size()));
    if (takes && !payload.copy_to(target)) return;
    std::copy(front.begin(), front.end(), bytes.begin() + static_cast<std::ptrdiff_t>(before));
    std::copy(back.begin(), back.end(), bytes.begin() + static_cast<std::ptrdiff_t>(before + half));
    if (!first && !request.is_read_or_atomic())
      std::get<verbs::Request>(partial_->body).bytes += request.bytes;
    const bool whole = request.is_read_or_atomic() ||
                       std::get<verbs::Request>(partial_->body).bytes == request.message_bytes;
    if (whole) {
      messages.push_back(*std::move(partial_));
      partial_.reset();
    }
  }
  static bool continues(const Message& last, const verbs::Response& next) {
    const auto* before = std::get_if<verbs::Response>(&last.body);
    return before != nullptr && before->number == next.number && next.bytes != 0 &&
           before->offset + before->bytes == next.offset;
  }

  World& world_;
  const std::uint8_t number_;
  ShardNumber shard_;
  std::uint32_t lanes_ = 0;
  TcpSettings settings_;
  std::unique_ptr<Tcp> tcp_;
  verbs::PathSlot path_;
  std::vector<std::unique_ptr<verbs::PathSlot>> kept_paths_;
  std::vector<TcpPeerState> states_;
  std::deque<Outgoing> outgoing_;
  std::optional<Message> partial_;
};

// A whole message in one piece.
inline Host::Outgoing a_write(HostId to, std::uint8_t from_host, std::uint32_t number, std::size_t bytes,
                              std::uint32_t qpn = 5) {
  Host::Outgoing out{.to = to, .bytes = pattern(bytes, number)};
  out.request = {.from = endpoint(from_host, qpn),
                 .to = endpoint(static_cast<std::uint8_t>(to.value), qpn),
                 .number = verbs::MessageNumber(number),
                 .op = verbs::RequestOp::kWrite,
                 .message_bytes = static_cast<std::uint32_t>(bytes),
                 .bytes = static_cast<std::uint32_t>(bytes),
                 .remote_addr = 0x1000,
                 .rkey = 3};
  return out;
}

// Cuts every connection of this process that was dialled to `address`, as a failed network would.
inline int cut_connections_to(const IpAddress& address) {
  int count = 0;
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_storage peer{};
    socklen_t length = sizeof(peer);
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) continue;
    if (peer.ss_family != AF_INET || IpAddress::from(peer).value() != address) continue;
    if (ntohs(reinterpret_cast<sockaddr_in*>(&peer)->sin_port) != kTestPort) continue;
    ::shutdown(fd, SHUT_RDWR);
    ++count;
  }
  return count;
}

}  // namespace pvrdma::transport::tcp
