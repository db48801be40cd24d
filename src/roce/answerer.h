// Answerer: takes the requests that arrive as packets for one RC connection, and sends the answers. It checks
// the order of the packets. The engine knows what a request does and whether it was executed before. The
// Answerer keeps the answers that are not sent yet. They may be forgotten at any moment, because the peer
// then asks again.
//
// Answers leave in the order of PSNs, as soon as there is room for frames. One acknowledgement covers all
// requests before it, and waits for the data of earlier reads. A read's bytes are looked up when they leave
// (IBTA vol. 1, 9.7.5.1).
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
  // A request has arrived. The engine reports the outcome through on_verdict() before this returns.
  void on_request(const Ends& ends, const Packet& packet, Instant now);
  void on_verdict(const verbs::Response& response);

  // Whether an answer is owed.
  bool owes() const { return !owed_.empty() || ack_owed_ || notification_owed_; }
  // Sends owed answers in at most `frames` frames, as long as there is room. Returns how many frames it sent.
  std::uint32_t answer(const Ends& ends, FrameSink& sink, std::uint32_t frames);

  // The network has marked a packet of the peer (ECN). The peer is notified, at most once in 50 us.
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
  bool gap_told_ = false;  // a NAK for the packet that is due was sent
  bool notification_owed_ = false;
  Instant notified_at_{Duration::min()};
  // The outcome of the request that the engine is executing.
  std::optional<verbs::Response> verdict_;
};

}  // namespace pvrdma::roce
