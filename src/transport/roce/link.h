// Link: sends and receives the Ethernet frames of one segment.
//
// A frame begins with the Ethernet header and has no FCS. Padding to Ethernet's minimum length is not needed.
// A link that is down drops nothing: place() returns null, and the link reports when it has room again. A
// link that loses its device or its peer tries to get it back by itself, if it can.
//
// A link delivers what it receives in bursts of at most kBurst frames, one burst in each turn of the shard.
// So a flood on one link does not delay other work. Only open_link() allocates or waits.
//
// Thread: shard-owned; made and destroyed between turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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

// Receives the frames. Each call may place and send frames, but must not destroy the link.
class FrameHandler {
 public:
  virtual ~FrameHandler() = default;
  // The frame is untrusted, kEthernetHeaderBytes to pvrdma::roce::kFrameBytesMax long, and borrowed during
  // the call.
  virtual void on_frame(std::span<const std::byte> frame, Instant now) = 0;
  // Called after one to kBurst calls of on_frame().
  virtual void on_burst_end(Instant now) = 0;
  // The link has room again after it had no room, or it has come up.
  virtual void on_room(Instant now) = 0;
};

struct LinkCounters {
  std::uint64_t sent_pkts = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t rcvd_pkts = 0;  // delivered to the handler
  std::uint64_t rcvd_bytes = 0;
  std::uint64_t rcvd_bad_length = 0;  // shorter or longer than a RoCE frame may be: dropped
  std::uint64_t link_full = 0;        // place() gave null while the link was up
  std::uint64_t send_errors = 0;      // frames that were placed but not sent
  std::uint64_t ups = 0;              // how often the link has come up

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

// When place() returns null, FrameHandler::on_room() follows later. A place is valid until send(), flush() or
// the next place(). A frame that was passed to send(), at least kEthernetHeaderBytes long, leaves at flush()
// at the latest, or waits in a bounded queue until the link accepts it.
class Link : public pvrdma::roce::FrameSink {
 public:
  virtual void flush(Instant now) = 0;

  virtual bool is_up() const = 0;
  // Why the link is down: one clause that says what to do. Empty when it is up.
  virtual std::string trouble() const = 0;
  // The most bytes behind the Ethernet header that the device carries now; nothing if the link cannot say.
  virtual std::optional<std::size_t> mtu_bytes() const { return std::nullopt; }
  virtual std::string what() const = 0;  // the text of its LinkName: "tap:pvroce0"
  virtual const LinkCounters& counters() const = 0;
};

// Opens a link on the shard that `loop` runs. `loop`, `clock` and `handler` are borrowed and outlive it.
// Everything that needs privileges is done here. The device of a tap and the socket of a stream may appear
// later. Calls no handler. Errors, each one sentence: what a link of this kind needs and cannot get.
Result<std::unique_ptr<Link>> open_link(const LinkName& name, shard::Loop& loop, const Clock& clock,
                                        FrameHandler& handler);

}  // namespace pvrdma::transport::roce
