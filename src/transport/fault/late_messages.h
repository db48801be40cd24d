// LateMessages: copies of messages that the fault decorator delivers later, in the order of their times, then
// of their arrival. Their number and bytes are bounded. The constructor allocates all memory; pages that are
// never touched cost nothing.
//
// Thread: shard-owned. Only the constructor allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "base/time.h"
#include "guestmem/host_span.h"
#include "transport/transport.h"
#include "verbs/message.h"
#include "verbs/path.h"

namespace pvrdma::transport::fault {

struct LateMessage {
  Place place;
  verbs::Connection connection;  // for a request or response
  std::variant<verbs::Request, verbs::Response, verbs::Datagram> content;
};

class LateMessages {
 public:
  // The largest payload of one message.
  static constexpr std::size_t kPayloadBytesMax = verbs::kPieceBytesMax;

  explicit LateMessages(std::size_t messages_max);

  // Copies the message and its payload. False: all places are taken, or the payload is too large; nothing is
  // kept.
  [[nodiscard]] bool add(const LateMessage& message, const guestmem::SpanList& payload, Instant due);

  std::size_t size() const { return waiting_.size(); }
  // The time of the first message; never() if no message waits.
  Instant next_due() const { return waiting_.empty() ? Instant::never() : waiting_.front().due; }

  // Passes the first message to `deliver(const LateMessage&, const guestmem::SpanList&)`, which may add
  // others.
  template <typename Deliver>
  void deliver_first(Deliver deliver) {
    const std::uint32_t place = take_first();
    guestmem::SpanList payload;
    static_cast<void>(payload.append(bytes_of(place), stored_[place].payload_bytes));
    deliver(stored_[place].message, payload);
    free_.push_back(place);
  }

  // Drops the messages for an engine of this host. Returns their number.
  std::size_t drop_for(const verbs::Engine& engine);

 private:
  struct Stored {
    LateMessage message;
    std::size_t payload_bytes = 0;
  };
  struct Waiting {
    Instant due;
    std::uint64_t order;  // of arrival
    std::uint32_t place;
  };
  static bool is_later(const Waiting& a, const Waiting& b) {
    return a.due != b.due ? a.due > b.due : a.order > b.order;
  }
  std::uint32_t take_first();
  std::byte* bytes_of(std::uint32_t place) { return bytes_.get() + place * kPayloadBytesMax; }

  std::vector<Stored> stored_;
  std::unique_ptr<std::byte[]> bytes_;  // kPayloadBytesMax for each place
  std::vector<std::uint32_t> free_;     // free places
  std::vector<Waiting> waiting_;        // a heap with the first message in front
  std::uint64_t added_ = 0;
};

}  // namespace pvrdma::transport::fault
