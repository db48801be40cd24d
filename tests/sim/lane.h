// Lane: one simulated TCP connection from a host to another, as both ends see it. Requests and datagrams go
// one way, responses the other, each in order. When the lane breaks, everything in flight is lost. The two
// ends notice a break at different times; what they send until then is lost.
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

// How long messages take, and how often they come in pieces.
struct LaneWeather {
  Duration delay_max = std::chrono::microseconds(20);
  std::uint32_t pieces_per_mille = 0;  // messages with bytes that arrive in pieces
};

// One direction of a lane.
class LaneStream {
 public:
  using Content = std::variant<verbs::Request, verbs::Response, verbs::Datagram>;

  // The message arrives at `at`, but not before earlier ones.
  void send(transport::SegmentId segment, const Content& content, const guestmem::SpanList& payload,
            Instant at);
  std::size_t bytes() const { return bytes_; }  // in flight
  // When the next message arrives.
  Instant next_event() const { return messages_.empty() ? Instant::never() : messages_.front().at; }
  // Delivers the front message, or a piece of it. After a refusal, the rest of the message is skipped.
  void deliver(transport::HostId from, transport::Inbound& to, Random& random, const LaneWeather& weather,
               Instant now);
  // The lane breaks, and half of the front message's next piece still arrives.
  void tear(transport::HostId from, transport::Inbound& to, Instant now);
  // Drops everything in flight. Returns how many messages were lost, in whole or in part.
  std::size_t clear();
  // Messages in flight do not arrive before `until`.
  void stall(Instant until);

 private:
  struct Message {
    Instant at;
    transport::SegmentId segment;
    Content content;
    std::vector<std::byte> payload;
    std::uint32_t done = 0;  // bytes handed over
    bool skipping = false;   // a piece was refused
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
  Instant dialler_learns = Instant::never();   // when it notices that the lane broke
  Instant acceptor_learns = Instant::never();  // as for the dialler
  Instant welcome_at = Instant::never();       // when the dialler learns that the lane is connected
  Instant redial_at{};
  bool was_up = false;  // at any time since the dialler's host started
  bool wanted = false;  // a sender was refused room

  bool joins(transport::HostId a, transport::HostId b) const {
    return (dialler == a && acceptor == b) || (dialler == b && acceptor == a);
  }
};

}  // namespace pvrdma::sim
