// The frames of a pipe that no lane has: messages whose payload is lent, and what is said of bulk QPs
// (docs/wire_format.md has the offsets). Each begins with its length and its kind, as a lane's frames do, so
// that take_bulk_frame() can tell them from those.
//
// Integers are in network order. What is decoded is checked: lengths, counts, sums and reserved bits. Keys
// and addresses are the peer's own; a wrong one fails in its NIC.
//
// Thread: pure functions of their arguments; nothing allocates.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "guestmem/host_span.h"
#include "transport/transport.h"
#include "verbs/message.h"

namespace pvrdma::transport::hca {

// Bytes side by side in the memory of the peer's guest.
struct Run {
  std::uint64_t address = 0;  // what the peer's NIC calls it
  std::uint32_t bytes = 0;
  std::uint32_t rkey = 0;
  friend bool operator==(const Run&, const Run&) = default;
};

class Runs {
 public:
  static constexpr std::size_t kMax = guestmem::SpanList::kCapacity;

  // False: there are kMax, and this one does not lengthen the last.
  [[nodiscard]] bool append(const Run& run);
  void clear() { count_ = 0; }
  std::span<const Run> view() const { return std::span(runs_).first(count_); }
  std::size_t size() const { return count_; }
  friend bool operator==(const Runs& a, const Runs& b) { return std::ranges::equal(a.view(), b.view()); }

 private:
  std::array<Run, kMax> runs_;
  std::size_t count_ = 0;
};

// One end of a bulk QP to be.
struct BulkEndpoint {
  std::uint32_t qpn = 0;    // 24 bits, more than 1
  std::uint32_t psn = 0;    // 24 bits
  std::uint32_t reads = 0;  // at a time: 1 ... kReadsMax
  friend bool operator==(const BulkEndpoint&, const BulkEndpoint&) = default;
};

// Connections of two VMs are spread over so many bulk QPs, each over one for good: a QP's READs land in
// order.
inline constexpr std::uint32_t kStripes = 4;

// Those of two VMs' connections that have a bulk QP together.
struct Stripe {
  VmPair pair;
  std::uint16_t number = 0;  // less than kStripes
  friend auto operator<=>(const Stripe&, const Stripe&) = default;
};

// Which one carries what `lender`, one of the two ends, lends.
inline Stripe stripe_of(SegmentId segment, const verbs::Endpoint& own, const verbs::Endpoint& peer,
                        const verbs::Endpoint& lender) {
  return {{.segment = segment, .own = own.gid, .peer = peer.gid},
          static_cast<std::uint16_t>(lender.qpn.value % kStripes)};
}

// The dialler's: it has a QP for the stripe; of the two VMs `pair.own` is its own.
struct BulkOffer {
  std::uint32_t id = 0;  // of the bulk QP, in all that follows; the dialler's choice
  Stripe stripe;
  BulkEndpoint end;
  friend bool operator==(const BulkOffer&, const BulkOffer&) = default;
};

// The acceptor's: its QP is connected. A QP number of 0: there will be none, for now.
struct BulkAnswer {
  std::uint32_t id = 0;
  BulkEndpoint end;
  friend bool operator==(const BulkAnswer&, const BulkAnswer&) = default;
};

// Either's: its QP is no more, and what was lent by it is over. The dialler answers the acceptor's with one
// of its own; all that it sends behind that is said again.
struct BulkStopped {
  std::uint32_t id = 0;
  friend bool operator==(const BulkStopped&, const BulkStopped&) = default;
};

// Answers to reads that one bulk QP may have lent and not got back.
inline constexpr std::uint32_t kLentAnswersMax = 16;

// The dialler's: its end of the QP stands, so that answers to its reads may be lent; and it reads so many of
// them, since there is that QP, no more. It says so before it says anything that its guest may say then.
struct BulkReturned {
  std::uint32_t id = 0;
  std::uint32_t count = 0;  // modulo 2^32
  friend bool operator==(const BulkReturned&, const BulkReturned&) = default;
};

// A message without its payload, which is in these runs of the sender's memory.
struct Lent {
  SegmentId segment;
  verbs::Request request;
  Runs runs;
};
struct LentAnswer {
  SegmentId segment;
  verbs::Response response;  // to a read
  Runs runs;
};

// The first is what a frame is made with: a small one.
using BulkBody = std::variant<BulkStopped, BulkReturned, BulkOffer, BulkAnswer, Lent, LentAnswer>;

struct BulkFrame {
  std::uint64_t sequence = 0;
  BulkBody body;
};

inline constexpr std::size_t kRunBytes = 16;
inline constexpr std::size_t kBulkFrameBytesMax = 240 + Runs::kMax * kRunBytes;
using BulkRoom = std::array<std::byte, kBulkFrameBytesMax>;

// The bytes of a frame, in `out`. Empty: the message cannot be (wire/format.h).
std::span<const std::byte> encode_lent(std::uint64_t sequence, SegmentId segment,
                                       const verbs::Request& request, const Runs& runs, BulkRoom& out);
std::span<const std::byte> encode_lent(std::uint64_t sequence, SegmentId segment,
                                       const verbs::Response& response, const Runs& runs, BulkRoom& out);
std::span<const std::byte> encode_bulk(std::uint64_t sequence, const BulkOffer& offer, BulkRoom& out);
std::span<const std::byte> encode_bulk(std::uint64_t sequence, const BulkAnswer& answer, BulkRoom& out);
std::span<const std::byte> encode_bulk(std::uint64_t sequence, const BulkStopped& stopped, BulkRoom& out);
std::span<const std::byte> encode_bulk(std::uint64_t sequence, const BulkReturned& returned, BulkRoom& out);

// Whether what begins there is one of these and no lane's.
bool is_bulk_frame(std::span<const std::byte> bytes);
struct BulkDecoded {
  std::size_t bytes = 0;    // of the frame; 0: it is refused
  std::string_view defect;  // one clause
};
// Of is_bulk_frame() only. `frame` is whole only if it is not refused.
BulkDecoded decode_bulk(std::span<const std::byte> bytes, BulkFrame& frame);

}  // namespace pvrdma::transport::hca
