// The frames that exist only on pipes, not on lanes: messages with lent payload, and the control messages of
// bulk QPs. docs/wire_format.md has the offsets. Like a lane's frame, each begins with its length and its
// kind, so is_bulk_frame() can tell the two apart.
//
// Integers are in network order. The decoder validates lengths, counts, sums and reserved bits. Keys and
// addresses refer to the peer's own memory; a wrong one fails in the peer's NIC.
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

// A contiguous range in the memory of the peer's guest.
struct Run {
  std::uint64_t address = 0;  // as the peer's NIC addresses it
  std::uint32_t bytes = 0;
  std::uint32_t rkey = 0;
  friend bool operator==(const Run&, const Run&) = default;
};

class Runs {
 public:
  static constexpr std::size_t kMax = guestmem::SpanList::kCapacity;

  // Merges the run into the last one if they are contiguous and have the same key. False: there are kMax runs
  // already.
  [[nodiscard]] bool append(const Run& run);
  void clear() { count_ = 0; }
  std::span<const Run> view() const { return std::span(runs_).first(count_); }
  std::size_t size() const { return count_; }
  friend bool operator==(const Runs& a, const Runs& b) { return std::ranges::equal(a.view(), b.view()); }

 private:
  std::array<Run, kMax> runs_;
  std::size_t count_ = 0;
};

// One end of a bulk QP that is being set up.
struct BulkEndpoint {
  std::uint32_t qpn = 0;    // 24 bits, greater than 1
  std::uint32_t psn = 0;    // 24 bits
  std::uint32_t reads = 0;  // READs at a time: 1 ... kReadsMax
  friend bool operator==(const BulkEndpoint&, const BulkEndpoint&) = default;
};

// One host's pipe spreads the connections of two VMs over this many bulk QPs. Each connection always uses the
// same QP, because READs of one QP complete in order.
inline constexpr std::uint32_t kStripes = 4;

// The connections of two VMs that share a bulk QP.
struct Stripe {
  VmPair pair;
  std::uint16_t number = 0;  // less than kStripes
  friend auto operator<=>(const Stripe&, const Stripe&) = default;
};

// The stripe of a connection. `lender` is the end, `own` or `peer`, on the host that has dialled the pipe and
// has the Lender. For a request it is the sender; for an answer to a read it is the receiver, although the
// other end lends the payload.
inline Stripe stripe_of(SegmentId segment, const verbs::Endpoint& own, const verbs::Endpoint& peer,
                        const verbs::Endpoint& lender) {
  return {{.segment = segment, .own = own.gid, .peer = peer.gid},
          static_cast<std::uint16_t>(lender.qpn.value % kStripes)};
}

// Sent by the dialler: it has made a QP for the stripe. `pair.own` is the dialler's VM.
struct BulkOffer {
  std::uint32_t id = 0;  // of the bulk QP, in all later frames; chosen by the dialler
  Stripe stripe;
  BulkEndpoint end;
  friend bool operator==(const BulkOffer&, const BulkOffer&) = default;
};

// Sent by the acceptor: its QP is connected. A QP number of 0 means that it makes no QP for now.
struct BulkAnswer {
  std::uint32_t id = 0;
  BulkEndpoint end;
  friend bool operator==(const BulkAnswer&, const BulkAnswer&) = default;
};

// Sent by either end: its QP is gone, and so are all loans over that QP. If the acceptor sends it, the
// dialler answers with one of its own. After its own, the dialler sends all unfinished requests again.
struct BulkStopped {
  std::uint32_t id = 0;
  friend bool operator==(const BulkStopped&, const BulkStopped&) = default;
};

// How many answers to reads may be lent over one bulk QP and not returned yet.
inline constexpr std::uint32_t kLentAnswersMax = 16;

// Sent by the dialler: its end of the QP is connected, so the acceptor may lend answers to reads. `count` is
// the number of lent answers, since the QP was made, that the dialler has finished reading. The dialler sends
// it before anything that its guest sends after those reads have completed.
struct BulkReturned {
  std::uint32_t id = 0;
  std::uint32_t count = 0;  // modulo 2^32
  friend bool operator==(const BulkReturned&, const BulkReturned&) = default;
};

// A request whose payload stays in the sender's memory, in these runs.
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

// A frame is default-constructed with the first alternative, which is small.
using BulkBody = std::variant<BulkStopped, BulkReturned, BulkOffer, BulkAnswer, Lent, LentAnswer>;

struct BulkFrame {
  std::uint64_t sequence = 0;
  BulkBody body;
};

inline constexpr std::size_t kRunBytes = 16;
inline constexpr std::size_t kBulkFrameBytesMax = 240 + Runs::kMax * kRunBytes;
using BulkRoom = std::array<std::byte, kBulkFrameBytesMax>;

// Encodes the frame into `out`. Returns empty if the message cannot be encoded (wire/format.h).
std::span<const std::byte> encode_lent(std::uint64_t sequence, SegmentId segment,
                                       const verbs::Request& request, const Runs& runs, BulkRoom& out);
std::span<const std::byte> encode_lent(std::uint64_t sequence, SegmentId segment,
                                       const verbs::Response& response, const Runs& runs, BulkRoom& out);
std::span<const std::byte> encode_bulk(std::uint64_t sequence, const BulkOffer& offer, BulkRoom& out);
std::span<const std::byte> encode_bulk(std::uint64_t sequence, const BulkAnswer& answer, BulkRoom& out);
std::span<const std::byte> encode_bulk(std::uint64_t sequence, const BulkStopped& stopped, BulkRoom& out);
std::span<const std::byte> encode_bulk(std::uint64_t sequence, const BulkReturned& returned, BulkRoom& out);

// Whether `bytes` begin with a bulk frame, not with a lane's frame.
bool is_bulk_frame(std::span<const std::byte> bytes);
struct BulkDecoded {
  std::size_t bytes = 0;    // of the frame; 0: it is refused
  std::string_view defect;  // one clause
};
// The caller has checked is_bulk_frame(). `frame` is complete only if it is not refused.
BulkDecoded decode_bulk(std::span<const std::byte> bytes, BulkFrame& frame);

}  // namespace pvrdma::transport::hca
