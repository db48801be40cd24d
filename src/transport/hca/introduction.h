// Introduction: what two hosts tell each other to make a pipe: the address of each host's QP and its
// capabilities. The dialler offers, and the acceptor answers. The messages travel over an authenticated
// connection; their content is the peer's claim and is validated here.
//
// Thread: values; Introducer a thread that may block.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "transport/transport.h"
#include "verbs/ids.h"

namespace pvrdma::transport::hca {

// The largest number of a port's GIDs that an offer has.
inline constexpr std::size_t kGidsMax = 16;

inline constexpr std::uint32_t kReadsMax = 16;

// The largest QP number, and the largest PSN.
inline constexpr std::uint32_t kMask24 = 0xff'ffff;

// One end of a pipe that is being set up.
struct PipeEndpoint {
  std::uint32_t qpn = 0;       // 24 bits, greater than 1
  std::uint32_t psn = 0;       // 24 bits: of the first packet that this end sends
  std::uint32_t mtu = 0;       // of the port, in bytes: 256 ... 4096
  std::uint32_t slots = 0;     // posted receives: kSlotsMin ... kSlotsMax
  std::uint32_t reads = 0;     // outstanding READs of each bulk QP, at most kReadsMax; 0: no bulk QPs
  bool lends_answers = false;  // whether it lends answers to reads, and fetches those lent to it
  friend bool operator==(const PipeEndpoint&, const PipeEndpoint&) = default;
};

struct PipeOffer {
  PipeEndpoint end;
  std::vector<verbs::Gid> gids;  // of its port, at most kGidsMax; the tagged VMkernel adapter's first
  ShardNumber from_shard{};      // of the dialler's host
  ShardNumber shard{};           // of the acceptor's host
  friend bool operator==(const PipeOffer&, const PipeOffer&) = default;
};

struct PipeAnswer {
  PipeEndpoint end;
  verbs::Gid dialler;   // the GID of the offer that the acceptor connects to
  verbs::Gid acceptor;  // the acceptor's own GID
  friend bool operator==(const PipeAnswer&, const PipeAnswer&) = default;
};

// Empty: the endpoint is valid. Otherwise what is wrong, one clause.
std::string_view defect_of(const PipeEndpoint& end);
std::string_view defect_of(const PipeOffer& offer);
// Validates the answer to `offer`.
std::string_view defect_of(const PipeAnswer& answer, const PipeOffer& offer);

// The GIDs of a port that a PipeOffer lists, in order of preference: first the GID of `tagged`, the address
// of the tagged VMkernel adapter, then the link-local ones. Others are left out, because the peer may not be
// on their networks.
std::vector<verbs::Gid> usable_gids(const std::vector<verbs::Gid>& port,
                                    const std::optional<verbs::Gid>& tagged);

struct GidPair {
  verbs::Gid dialler;
  verbs::Gid acceptor;
  friend bool operator==(const GidPair&, const GidPair&) = default;
};
// Both lists come from usable_gids(). Empty: they have no address family in common.
std::optional<GidPair> choose_gids(const std::vector<verbs::Gid>& dialler,
                                   const std::vector<verbs::Gid>& acceptor);

// Asks another host for its end of a pipe.
class Introducer {
 public:
  virtual ~Introducer() = default;
  // Whether the host may be asked now. EAGAIN: not yet, one clause.
  virtual Result<void> check(const std::string& /*host*/) { return {}; }
  // Blocks for a bounded time. Errors: one clause; ECANCELED: the other host refuses, in its own words.
  virtual Result<PipeAnswer> introduce(const std::string& host, const PipeOffer& offer) = 0;
};

}  // namespace pvrdma::transport::hca
