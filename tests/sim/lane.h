// Lane: one simulated TCP connection from a host to another, as both ends see it: requests and datagrams one
// way, responses the other, in order, and all that is under way lost when it breaks. The two ends notice a
// break, each in its time; until then they send into the void.
//
// Thread: the world's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <variant>
#include <vector>

#include "sim/random.h"
#include "transport/transport.h"

namespace pvrdma::sim {

// How long messages take, and in how many pieces they come.
struct LaneWeather {
  Duration delay_max = std::chrono::microseconds(20);
  std::uint32_t pieces_per_mille = 0;  // messages with bytes that arrive in pieces
};

// One direction.
class LaneStream {
 public:
  using Content = std::variant<verbs::Request, verbs::Response, verbs::Datagram>;

  // Arrives at `at`, or behind what was sent before.
  void send(transport::SegmentId segment, const Content& content, const guestmem::SpanList& payload,
            Instant at);
  std::size_t bytes() const { return bytes_; }  // under way
  // When there is something to deliver next.
  Instant next_event() const { return messages_.empty() ? Instant::never() : messages_.front().at; }
  // Hands the front message over, or a piece of it. Deliveries that were refused are counted.
  void deliver(transport::HostId from, transport::Inbound& to, Random& random, const LaneWeather& weather,
               Instant now);
  // Half of a piece of the front message arrives before the end.
  void tear(transport::HostId from, transport::Inbound& to, Instant now);
  // How many messages were lost, in whole or in part.
  std::size_t clear();
  // Nothing arrives before `until`.
  void stall(Instant until);

 private:
  struct Message {
    Instant at;
    transport::SegmentId segment;
    Content content;
    std::vector<std::byte> payload;
    std::uint32_t done = 0;  // bytes handed over
    bool skipping = false;   // nobody wants it
  };
  void hand_over(Message& message, transport::HostId from, transport::Inbound& to, std::uint32_t bytes,
                 bool torn, Instant now);

  std::deque<Message> messages_;
  std::size_t bytes_ = 0;
};

struct Lane {
  transport::HostId dialler;
  transport::HostId acceptor;
  LaneStream out;   // requests and datagrams
  LaneStream back;  // responses
  bool stands = false;
  bool dialler_up = false;
  bool acceptor_up = false;
  Instant dialler_learns = Instant::never();   // that it broke
  Instant acceptor_learns = Instant::never();  // likewise
  Instant welcome_at = Instant::never();       // the dialler learns that it stands
  Instant redial_at{};
  bool was_up = false;  // once, for this dialler
  bool wanted = false;  // somebody found no room

  bool joins(transport::HostId a, transport::HostId b) const {
    return (dialler == a && acceptor == b) || (dialler == b && acceptor == a);
  }
};

}  // namespace pvrdma::sim
