// Answerer: the requests that arrive for one RC connection as packets, and the answers to them. It knows the
// order of packets; what a request does, and whether it was done already, the engine knows. What is owed to
// the peer is kept here, and may be forgotten at any moment: the peer asks again.
//
// Answers leave in the order of PSNs, when there is room for frames: acknowledgements are gathered, and wait
// for the data of reads before them; a read's bytes are looked up as they leave (IBTA vol. 1, 9.7.5.1).
//
// Pure: a function of state, packet and now. Thread: shard-owned.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "roce/ends.h"
#include "roce/owed_answers.h"
#include "roce/packet.h"
#include "verbs/message.h"
#include "verbs/packets.h"

namespace pvrdma::roce {

class Answerer {
 public:
  // A request came. What the engine says of it comes back through on_verdict() before this returns.
  void on_request(const Ends& ends, const Packet& packet, Instant now);
  void on_verdict(const verbs::Response& response);

  // Something is owed.
  bool owes() const { return !owed_.empty() || ack_owed_ || notification_owed_; }
  // Sends what is owed, `frames` at most, as long as there is room. Returns how many it sent.
  std::uint32_t answer(const Ends& ends, FrameSink& sink, std::uint32_t frames);

  // A packet of the peer's was marked on its way: it is told, not more often than every 50 us.
  void on_marked(const Ends& ends, Instant now);

 private:
  void on_due(const Ends& ends, const Packet& packet, const verbs::PacketsReceived& state, Instant now);
  void on_repeated(const Ends& ends, const Packet& packet, const verbs::PacketsReceived& state);
  void on_early(const Ends& ends, const verbs::PacketsReceived& state);
  void owe(const Ends& ends, const OwedAnswer& answer);
  bool send_first(const Ends& ends, FrameSink& sink);
  bool send_data(const Ends& ends, OwedAnswer& read, FrameSink& sink);
  bool send_acknowledgement(const Ends& ends, FrameSink& sink);

  OwedAnswers owed_;
  bool ack_owed_ = false;
  bool gap_told_ = false;  // a NAK for the packet that is due is out
  bool notification_owed_ = false;
  Instant notified_at_{Duration::min()};
  // Of the request that the engine has in hand.
  std::optional<verbs::Response> verdict_;
};

}  // namespace pvrdma::roce
