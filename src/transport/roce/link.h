// Link: where the Ethernet frames of one segment go in and out of this host.
//
// Frames are whole, from Ethernet's header on, without its checksum; padding to Ethernet's shortest is not
// needed. A link that is down drops nothing: it has no place, and says so when it has one again. One that
// loses its device or its peer tries by itself to get it back, where it can.
//
// What a link takes in, it hands over in bursts of at most kBurst frames, one burst in a turn of the shard:
// a flood on one link holds nobody else up. Nothing here allocates or waits but open_link().
//
// Thread: shard-owned; made and destroyed between turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "roce/frame_sink.h"
#include "shard/loop.h"
#include "vocabulary/link_name.h"

namespace pvrdma::transport::roce {

inline constexpr std::size_t kBurst = 64;                // frames
inline constexpr std::size_t kEthernetHeaderBytes = 14;  // the shortest frame

// Takes what comes in. May place and send frames in each of these calls, and not destroy the link.
class FrameHandler {
 public:
  virtual ~FrameHandler() = default;
  // From a stranger: kEthernetHeaderBytes to pvrdma::roce::kFrameBytesMax, borrowed during the call.
  virtual void on_frame(std::span<const std::byte> frame, Instant now) = 0;
  // After one to kBurst calls of on_frame().
  virtual void on_burst_end(Instant now) = 0;
  // There was no room and there is some now; also when the link has come up.
  virtual void on_room(Instant now) = 0;
};

struct LinkCounters {
  std::uint64_t sent_pkts = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t rcvd_pkts = 0;  // handed over
  std::uint64_t rcvd_bytes = 0;
  std::uint64_t rcvd_bad_length = 0;  // shorter or longer than a RoCE frame may be: dropped
  std::uint64_t link_full = 0;        // place() gave null while the link was up
  std::uint64_t send_errors = 0;      // frames that were placed and did not go out
  std::uint64_t ups = 0;              // how often it has come up

  LinkCounters& operator+=(const LinkCounters& other) {
    sent_pkts += other.sent_pkts;
    sent_bytes += other.sent_bytes;
    rcvd_pkts += other.rcvd_pkts;
    rcvd_bytes += other.rcvd_bytes;
    rcvd_bad_length += other.rcvd_bad_length;
    link_full += other.link_full;
    send_errors += other.send_errors;
    ups += other.ups;
    return *this;
  }
};

// Where place() has none, FrameHandler::on_room() follows; a place is good until send(), flush() or the next
// one. What was sent, kEthernetHeaderBytes at least, goes out at flush() at the latest, or waits in a bounded
// queue until the link takes it.
class Link : public pvrdma::roce::FrameSink {
 public:
  virtual void flush(Instant now) = 0;

  virtual bool is_up() const = 0;
  // Why it is down: one clause, which says what to do. Empty when it is up.
  virtual std::string trouble() const = 0;
  virtual std::string what() const = 0;  // as its LinkName: "tap:pvroce0"
  virtual const LinkCounters& counters() const = 0;
};

// A link of the shard that `loop` runs; `loop`, `clock` and `handler` are borrowed and outlive it. What needs
// rights is done here; the device of a tap and the socket of a stream may come later. Calls no handler.
// Errors, each one sentence: what a link of this kind needs and does not get.
Result<std::unique_ptr<Link>> open_link(const LinkName& name, shard::Loop& loop, const Clock& clock,
                                        FrameHandler& handler);

}  // namespace pvrdma::transport::roce
