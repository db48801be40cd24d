// Introduction: what two hosts tell each other to make a pipe: where the QP of each is, and what it can do.
// The dialler offers, the acceptor answers. It goes over a connection that has proven which host is at its
// other end; what it says is that host's word, checked here.
//
// Thread: values; Introducer a thread that may block.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "verbs/ids.h"

namespace pvrdma::transport::hca {

// Of a port: how many GIDs are told at most.
inline constexpr std::size_t kGidsMax = 16;

inline constexpr std::uint32_t kReadsMax = 16;

// One end of a pipe to be.
struct PipeEndpoint {
  std::uint32_t qpn = 0;       // 24 bits, more than 1
  std::uint32_t psn = 0;       // 24 bits: of the first packet that it sends
  std::uint32_t mtu = 0;       // of its port: 256 ... 4096
  std::uint32_t slots = 0;     // posted receives: kSlotsMin ... kSlotsMax
  std::uint32_t reads = 0;     // RDMA READs at a time of its bulk QPs, kReadsMax at most; 0: it has none
  bool lends_answers = false;  // to reads, and fetches those that it is lent
  friend bool operator==(const PipeEndpoint&, const PipeEndpoint&) = default;
};

struct PipeOffer {
  PipeEndpoint end;
  std::vector<verbs::Gid>
      gids;  // of its port, kGidsMax at most; the one of the tagged VMkernel adapter first
  friend bool operator==(const PipeOffer&, const PipeOffer&) = default;
};

struct PipeAnswer {
  PipeEndpoint end;
  verbs::Gid dialler;   // which of the offer's GIDs is spoken to
  verbs::Gid acceptor;  // as whom
  friend bool operator==(const PipeAnswer&, const PipeAnswer&) = default;
};

// Empty: it can be. Otherwise what is wrong, one clause.
std::string_view defect_of(const PipeEndpoint& end);
std::string_view defect_of(const PipeOffer& offer);
// As an answer to `offer`.
std::string_view defect_of(const PipeAnswer& answer, const PipeOffer& offer);

// The GIDs of a port, those to be preferred first, as a PipeOffer has them: that of `tagged`, the address of
// the tagged VMkernel adapter, then link-local ones. Others are of networks that the peer need not have.
std::vector<verbs::Gid> usable_gids(const std::vector<verbs::Gid>& port,
                                    const std::optional<verbs::Gid>& tagged);

struct GidPair {
  verbs::Gid dialler;
  verbs::Gid acceptor;
  friend bool operator==(const GidPair&, const GidPair&) = default;
};
// Both lists as usable_gids() makes them. None: they have no family in common.
std::optional<GidPair> choose_gids(const std::vector<verbs::Gid>& dialler,
                                   const std::vector<verbs::Gid>& acceptor);

// Asks another host for the end of a pipe.
class Introducer {
 public:
  virtual ~Introducer() = default;
  // Blocks for a bounded time. Errors: one clause; ECANCELED: the other host refuses, in its own words.
  virtual Result<PipeAnswer> introduce(const std::string& host, const PipeOffer& offer) = 0;
};

}  // namespace pvrdma::transport::hca
