// HostGids: where each GID of this host is: on which shard, at which port, and whether messages reach it
// there. One for all shards of the host.
//
// A shard looks a GID up without a lock and never waits for another thread. The shards bind, unbind and
// change GIDs under a mutex: these are commands and tasks, and each holds the mutex for a few hundred
// nanoseconds. No guest makes one of them take longer: nothing is logged, sent or waited for under the mutex.
//
// The table has sets of 16 buckets. A GID may lie in one set only, which a hash with a secret of this process
// chooses, so no guest can fill the set of another one's GIDs. A full set refuses a GID.
//
// A bucket is one word of state and three of key. The state has a version. A reader loads the state, the key,
// and the state again: if both states are equal, it has seen one GID as it was. A writer first frees a
// bucket, then fills in the key, and then stores the state; a reader that comes in between finds it free.
//
// Each segment has a generation (switch.h) for all shards. A writer changes the table first and the
// generation afterwards; a reader loads the generation first. So a path of the current generation leads to
// where the table says, and a bind that was acknowledged is seen by every path opened later, on any shard.
//
// Thread: as each member says.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/transport.h"
#include "verbs/ids.h"
#include "vocabulary/shards.h"

namespace pvrdma::fabric {

class HostGids {
 public:
  // A port of this host. The number is never used again while the process runs.
  using PortNumber = Strong<struct PortNumberTag, std::uint32_t>;

  // Whether messages reach a GID that a port has bound.
  enum class Reach : std::uint8_t {
    kWorks = 1,  // 0: the bucket is free
    kLinkDown,
    kDetached,  // the port has no adapter
    kStopped,   // the adapter is stopped
    kLost,      // another host holds it (switch.h)
  };

  struct Holder {
    transport::ShardNumber shard;
    PortNumber port;
    Reach reach{};
    friend bool operator==(const Holder&, const Holder&) = default;
  };

  static constexpr std::uint32_t kSets = 2048;  // 1 MiB; a hundred adapters with 64 GIDs each fill a fifth
  static constexpr std::uint32_t kWays = 16;

  // `shards`: how many this host has with its ward, at most kShardsWithWardMax. `ward`: empty: it has no
  // ward.
  explicit HostGids(std::uint32_t shards, std::optional<transport::ShardNumber> ward = {});
  HostGids(const HostGids&) = delete;
  HostGids& operator=(const HostGids&) = delete;

  // Any thread. One shard has nothing to look up: its switches know all GIDs of the host.
  bool has_siblings() const { return shards_ > 1; }
  // Whether adapters of these two shards lend each other no memory. The kernel may let a thread sleep that
  // touches the memory of an adapter in the ward, so no other thread touches it. Any thread.
  bool only_copy(transport::ShardNumber one, transport::ShardNumber other) const {
    return one != other && (one == ward_ || other == ward_);
  }

  // Called on a shard that has something to tell the others: the port works again, so its peers on the other
  // shards send again what they sent to it meanwhile. `tell` must not block. Set before the shards run.
  using Tell =
      std::function<void(transport::ShardNumber from, transport::SegmentId segment, PortNumber port)>;
  void set_tell(Tell tell) { tell_ = std::move(tell); }
  void works_again(transport::ShardNumber from, transport::SegmentId segment, PortNumber port) const {
    if (tell_) tell_(from, segment, port);
  }

  // The generation of a segment, for all shards. Lives as long as this. Any thread; takes the mutex.
  std::atomic<std::uint64_t>& generation(transport::SegmentId segment);

  // A port of the host is made or destroyed. No port without a list of addresses may bind the addresses of
  // another one. The first port that lists an address has it. Any thread; takes the mutex.
  PortNumber add_port(transport::SegmentId segment, const std::string& name,
                      const std::vector<verbs::Gid>& addresses);
  void remove_port(transport::SegmentId segment, PortNumber port, const std::vector<verbs::Gid>& addresses);
  // Empty: there is no such port any more. Any thread; takes the mutex.
  std::string name_of(PortNumber port);

  // Whether the GID is a port's by its identity (reservations.h), or free for any port that binds it first.
  enum class Claim : bool { kFree, kOwn };
  // Why a GID was not bound.
  struct Refusal {
    enum class Reason : std::uint8_t { kAddressOfAnother, kHeld, kFull };
    Reason reason;
    std::string port;  // whose address it is, or which holds it; empty with kFull
  };
  // Binds a GID; empty: it is bound. If memory runs out (bad_alloc), nothing is bound. Any thread; takes the
  // mutex.
  [[nodiscard]] std::optional<Refusal> bind(transport::SegmentId segment, const verbs::Gid& gid,
                                            const Holder& holder, Claim claim);
  // Do nothing unless that port has it bound. Allocate nothing. Any thread; take the mutex.
  void unbind(transport::SegmentId segment, const verbs::Gid& gid, PortNumber port);
  void set_reach(transport::SegmentId segment, const verbs::Gid& gid, PortNumber port, Reach reach);
  // What `from` has bound, or lists as its addresses, becomes that of `to`: another port of the same adapter.
  // Messages reach neither port meanwhile. Do nothing unless it is that of `from`. Allocate nothing. Any
  // thread; take the mutex.
  void hand_over(transport::SegmentId segment, const verbs::Gid& gid, PortNumber from, const Holder& to);
  void hand_over_addresses(transport::SegmentId segment, PortNumber from, PortNumber to,
                           const std::vector<verbs::Gid>& addresses);

  // Empty: no port of this host has it bound. Any thread; no lock.
  std::optional<Holder> find(transport::SegmentId segment, const verbs::Gid& gid) const;

 private:
  struct Key {
    Key(transport::SegmentId segment, const verbs::Gid& gid);
    std::uint64_t high;
    std::uint64_t low;
    std::uint64_t segment;  // the upper 48 bits
  };
  // Half a cache line.
  struct Bucket {
    std::atomic<std::uint64_t> state{0};  // version 24, port 32, Reach 8
    std::atomic<std::uint64_t> high{0};
    std::atomic<std::uint64_t> low{0};
    std::atomic<std::uint64_t> place{0};  // segment 48, shard 16

    std::optional<Holder> read(const Key& key) const;
    bool is_of(const Key& key) const;  // under the mutex, as the others
    bool is_free() const;
    PortNumber port() const;
    void set(PortNumber port, std::uint8_t reach);
    void fill(const Key& key, const Holder& holder);
    void hand_over(const Key& key, const Holder& to);
  };
  static_assert(sizeof(Bucket) == 32);
  using Set = std::array<Bucket, kWays>;

  // A line of its own: all shards read it with each message.
  struct alignas(64) Generation {
    std::atomic<std::uint64_t> value{1};  // 0 means "never opened" in a PathSlot
  };
  using Addresses = std::unordered_map<verbs::Gid, PortNumber, verbs::GidHash>;

  Set& set_of(const Key& key) const { return sets_[index_of(key)]; }
  std::size_t index_of(const Key& key) const;
  Bucket* bucket_of(transport::SegmentId segment, const verbs::Gid& gid, PortNumber port);

  const std::uint32_t shards_;
  const std::optional<transport::ShardNumber> ward_;
  const std::uint64_t secret_;
  Tell tell_;
  const std::unique_ptr<Set[]> sets_;
  std::mutex mutex_;
  std::map<transport::SegmentId, Generation> generations_;  // guarded by mutex_, as the rest
  std::map<transport::SegmentId, Addresses> addresses_;     // of ports with a list
  std::unordered_map<std::uint32_t, std::string> names_;    // of ports
  std::uint32_t last_port_ = 0;
};

}  // namespace pvrdma::fabric
