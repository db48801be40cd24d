// Sender: sends the requests of one RC connection as packets, and takes the answers. The engine keeps all
// state that the peer would miss. What the Sender keeps may be forgotten at any moment, at the cost of a
// repetition.
//
// A window bounds the unconfirmed packets in flight. A read counts as many packets as its answer has, because
// it takes that many PSNs. The Sender sees by the PSN that the engine sends a request again.
//
// A long read is asked for in parts of kPacketsAsked packets, which begin at multiples of that size in the
// message. A responder may refuse a repeated request that reaches beyond the original one (rxe does). With
// such parts, no repeated request does.
//
// Pure: a function of state, packet and now. Thread: shard-owned.
#pragma once

#include <array>
#include <cstdint>

#include "base/time.h"
#include "roce/congestion_window.h"
#include "roce/ends.h"
#include "roce/packet.h"
#include "roce/round_trip.h"
#include "verbs/limits.h"
#include "verbs/message.h"
#include "verbs/packets.h"

namespace pvrdma::roce {

class Sender {
 public:
  static constexpr std::uint32_t kPacketsAsked = 64;

  // As in verbs::Path.
  std::uint32_t room(const Ends& ends, std::uint32_t wanted, const FrameSink& sink);
  std::uint32_t room_to_ask(const Ends& ends, std::uint32_t wanted, const FrameSink& sink);
  Duration repeat_after() const { return round_trip_.repeat_after(); }
  void send_request(const Ends& ends, const verbs::Request& request, const guestmem::SpanList& payload,
                    FrameSink& sink, Instant now);

  // An answer came: an acknowledgement, the result of an atomic or data of a read.
  void on_answer(const Ends& ends, const Packet& packet, Instant now);
  // The network between the ends is congested.
  void on_congestion(const Ends& ends);

 private:
  // Why the engine will send requests again.
  enum class Cause : std::uint8_t { kSilence, kMissing, kNotReady };

  std::uint32_t free_packets(const verbs::PacketsSent& sent) const;
  void begin(const Ends& ends, const verbs::PacketsSent& sent);
  void note_repetition(const Ends& ends, const verbs::PacketsSent& sent);
  // Each handles one kind of answer. Returns true if an earlier answer is missing.
  bool on_acknowledge(const Ends& ends, const Packet& packet, const verbs::SentPacket& sent, Instant now);
  bool on_read_data(const Ends& ends, const Packet& packet, const verbs::SentPacket& sent, Instant now);
  bool on_atomic_result(const Ends& ends, const Packet& packet, const verbs::SentPacket& sent, Instant now);
  void on_answer_missing(const Ends& ends, verbs::Psn oldest, Instant now);
  void forget_asked(verbs::Psn from, verbs::Psn oldest);

  CongestionWindow window_;
  RoundTrip round_trip_;
  bool begun_ = false;  // next_, furthest_ and oldest_ are valid
  bool waits_ = false;  // the engine was told that there is no room in the window
  Cause cause_ = Cause::kSilence;
  bool repeats_after_silence_ = false;  // the engine last went back because the peer was silent
  bool only_late_ = false;  // answers were only late: packets from next_ to furthest_ are not sent again
  verbs::Psn next_;         // one past the packet sent last
  verbs::Psn furthest_;     // one past the newest packet sent
  verbs::Psn oldest_;       // the oldest unconfirmed packet, when this was last updated
  // The PSN behind each unanswered read or atomic request, oldest first: at most max_rd_atomic of them.
  std::array<verbs::Psn, verbs::kRdAtomicMax> asked_{};
  std::uint32_t asked_count_ = 0;
  verbs::Psn missed_;  // the packet whose answer was found missing last
  Instant missed_until_{};
};

}  // namespace pvrdma::roce
