// Directory: the store of a simulated cluster. It has the truth about which host holds which GID. Each change
// reaches each host late, after a different time. A host may skip views, and never sees an older one after a
// newer one.
//
// Invariant (checked): no two hosts hold the same GID. Thread: the world's.
#pragma once

#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "fabric/view.h"
#include "sim/random.h"
#include "transport/transport.h"
#include "verbs/ids.h"

namespace pvrdma::sim {

class Directory {
 public:
  static constexpr Duration kPublishMax = std::chrono::milliseconds(1);
  static constexpr Duration kViewMax = std::chrono::milliseconds(3);
  static constexpr Duration kLeaseMax = std::chrono::milliseconds(60);

  struct Options {
    bool natives = false;  // ports may reach endpoints outside the cluster
    bool hcas = false;
    std::uint32_t shards = 1;  // of each host
  };
  Directory(std::uint64_t seed, std::uint32_t hosts, transport::SegmentId segment, const Options& options);

  // --- Hosts write: a change becomes the truth a little later, in order. ---

  // A new daemon starts on the host; the GIDs of the last one are then gone.
  void started(std::uint32_t host, Instant now);
  // The host writes nothing more; its records vanish with its lease.
  void died(std::uint32_t host, Instant now);
  void bound(std::uint32_t host, const verbs::Gid& gid, Instant now, std::uint32_t shard = 0);
  // A GID that the host holds is on another shard of it.
  void moved(std::uint32_t host, const verbs::Gid& gid, Instant now, std::uint32_t shard);
  void unbound(std::uint32_t host, const verbs::Gid& gid, Instant now);
  void set_ruleset(std::uint32_t host, bool enabled, Instant now);

  // --- Hosts read. ---

  Instant next_event() const { return agenda_.empty() ? Instant::never() : agenda_.begin()->first; }
  // The views that reach hosts by `now`, in order.
  std::vector<std::pair<std::uint32_t, fabric::View>> take_due(Instant now);
  // The newest view of one host.
  fabric::View view_for(std::uint32_t host) const;
  // Whether no change or view is under way.
  bool at_rest() const { return agenda_.empty(); }

 private:
  struct Host {
    bool alive = false;  // in the store: from its first record until its lease has ended
    bool ruleset = true;
    std::uint32_t life = 0;
    Instant last_write{};
    std::uint64_t seen = 0;  // the newest version that reached the host
  };
  struct Holder {
    std::uint32_t host;
    std::uint32_t shard;
  };
  enum class Write : std::uint8_t { kStart, kLapse, kBind, kMove, kUnbind, kRulesetOn, kRulesetOff };
  struct Change {
    std::uint32_t host;
    std::uint32_t life;
    Write write;
    verbs::Gid gid;
    std::uint32_t shard;
  };
  struct Arrival {
    std::uint32_t host;
    std::uint32_t life;
    std::uint64_t version;
    fabric::View view;
  };

  void write(std::uint32_t host, Write what, const verbs::Gid& gid, Instant now, std::uint32_t shard = 0);
  void apply(const Change& change, Instant now);
  void drop_gids(std::uint32_t host);

  Random random_;
  const transport::SegmentId segment_;
  const Options options_;
  std::vector<Host> hosts_;
  std::map<verbs::Gid, Holder> gids_;
  std::uint64_t version_ = 0;
  std::multimap<Instant, std::variant<Change, Arrival>> agenda_;
};

}  // namespace pvrdma::sim
