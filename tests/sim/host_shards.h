// HostShards: the shards of one host, each with its loop, its fabric and its ends of the rings (ADR 28). One
// thread turns them all, in simulated time, in an order that the seed chooses.
//
// A shard sleeps as the daemon's do: when a turn has found nothing, Siblings::may_sleep() decides. A sleeping
// shard is turned only if its bell was rung, a deadline is due, a guest or another shard has asked it for
// something, or it is time to look at mapped doorbells. So a wake-up that is lost stays lost.
//
// A shard may also be away, as if the kernel had taken its thread off its core. What the others send to it
// then lies in the rings, and may be revoked there. Since a shard reads all that is there before it goes
// away, it may be away in front of any message. It is never away in the middle of a copy: a revoke would wait
// for it. siblings_threads_test has that case.
//
// A host with one shard has no rings, as in the daemon. A host of a cluster has lanes besides: each shard has
// its own to each shard of each other host (ADR 31), and an HCA if the world has them.
//
// Thread: the world's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "device/adapter.h"
#include "fabric/fabric.h"
#include "fabric/fabric_observer.h"
#include "fabric/host_gids.h"
#include "shard/loop.h"
#include "shard/pace.h"
#include "sim/directory.h"
#include "sim/lane_network.h"
#include "sim/random.h"
#include "sim/shard_hca.h"
#include "support/running_adapter.h"
#include "transport/local/local.h"
#include "transport/siblings/host_rings.h"
#include "transport/siblings/siblings.h"
#include "transport/transport.h"

namespace pvrdma::sim {

class HostShards {
 public:
  // Of a host's adapters.
  static constexpr transport::SegmentId kSegment{.dvs = 1, .vlan = 10};

  // What a host of a cluster knows of the others. Borrowed.
  struct Outside {
    LaneNetwork& lanes;
    Directory& directory;
    std::uint32_t host;         // this one
    std::uint32_t first_shard;  // its first shard, counted over all hosts
    Nics* nics = nullptr;       // null: the hosts have no HCAs
  };

  // `clock` is borrowed. Without `outside`, there is no other host.
  HostShards(std::uint64_t seed, std::uint32_t shards, const Clock& clock,
             std::optional<Outside> outside = {});
  ~HostShards();  // all adapters and ports are gone before
  HostShards(const HostShards&) = delete;
  HostShards& operator=(const HostShards&) = delete;

  std::uint32_t count() const { return static_cast<std::uint32_t>(shards_.size()); }
  // The switch of the shard's adapters.
  fabric::Switch& segment(std::uint32_t shard);
  // A view of the cluster reaches all shards, each when it is turned next.
  void set_view(const fabric::View& view);
  // Whether all shards have the view, and a lane to each shard that it names.
  bool has_view(const fabric::View& view) const;

  // Each shard connects to each other host by HCA.
  void want_pipes();

  // From now on the shard runs the adapter (borrowed) of the VM `vm`, until end().
  void run(std::uint32_t shard, std::uint32_t vm, device::Adapter& adapter);
  void end(std::uint32_t shard, std::uint32_t vm);

  // Somebody asks the shard for something outside its turns, for instance by a guest's call. It is awake.
  void wake(std::uint32_t shard) { shards_[shard]->sleeps = false; }
  // The shard is not turned for `time`.
  void hold(std::uint32_t shard, Duration time);
  // No shard is away any more.
  void bring_back();

  // How many of a thousand turns come late, and by how much.
  struct Weather {
    std::uint32_t late_per_mille = 0;
    Duration late_max{0};
  };
  Weather weather;

  // Turns one of the shards that have something to do. On an empty stack. False: all sleep or are away.
  bool turn();
  // When a shard that sleeps or is away can next be turned, if nothing happens until then.
  Instant next_event() const;
  // Turns the shards that sleep, all the same. A Violation if one of them has slept although another shard
  // had sent it something, or made room for it.
  void verify_sleepers();

  struct Tally {
    std::uint64_t messages = 0;  // that one shard has read from another one
    std::uint64_t sleeps = 0;
    std::uint64_t bells = 0;     // that have ended a sleep
    std::uint64_t rooms = 0;     // times that a shard heard of new room in a ring
    std::uint64_t restored = 0;  // times that a shard heard of revoked answers
    std::uint64_t revoked = 0;   // messages
    std::uint64_t lost = 0;      // messages
    std::uint64_t by_hca = 0;    // messages
    std::uint64_t fetched = 0;   // requests and answers whose payload the HCA fetched

    std::uint64_t heard() const { return messages + rooms + restored; }
    Tally& operator+=(const Tally& other);
  };
  Tally tally() const;

 private:
  struct Shard final : transport::SiblingInbound, fabric::FabricObserver {
    Shard(HostShards& host, std::uint32_t index, std::uint32_t shards_of_host);
    ~Shard() override;

    // False: it sleeps or is away.
    bool can_turn(Instant now) const;
    bool bell_rang() const;
    void turn(Instant now);
    bool reaches(transport::HostId other) const;
    void verify_sleep(Instant now);
    bool polls() const;
    Instant next_deadline() const;

    // SiblingInbound: the fabric's, counted.
    Admission admit(transport::ShardNumber from, transport::SegmentId segment, const verbs::Gid& source,
                    const verbs::Gid& destination) override;
    void on_room() override;
    void on_restored(transport::ShardNumber from, Instant now) override;

    // FabricObserver, of a host in a cluster.
    void on_gid_bound(transport::SegmentId segment, const verbs::Gid& gid, const std::string& port) override;
    void on_gid_unbound(transport::SegmentId segment, const verbs::Gid& gid) override;
    void on_gid_moved(transport::SegmentId segment, const verbs::Gid& gid) noexcept override;
    void on_host_up(transport::HostId host, bool up) override;

    const HostShards& host;
    const std::shared_ptr<transport::siblings::HostRings>& rings;  // null: this is the only shard
    const transport::ShardNumber number;
    const std::unique_ptr<shard::Loop> loop;
    std::optional<HostTransport> tcp;  // of a host in a cluster
    fabric::Fabric fabric;
    transport::Local local;                                 // of the only shard
    std::unique_ptr<transport::Siblings> siblings;          // null: this is the only shard
    std::unique_ptr<ShardHca> hca;                          // null: the host has no HCA
    std::map<std::uint32_t, test::RunningAdapter> running;  // by VM
    std::vector<std::function<void()>> tasks;               // from other shards
    shard::Pace pace{{}};
    bool sleeps = false;
    Instant looks_at = Instant::never();  // at mapped doorbells, while it sleeps
    Instant away_until{};
    Tally tally;
  };

  void tell(transport::ShardNumber from, transport::SegmentId segment, fabric::HostGids::PortNumber port);
  // Among the lanes.
  transport::HostId id_of(std::uint32_t shard) const;

  const Clock& clock_;
  const std::optional<Outside> outside_;
  Random random_;
  fabric::HostGids gids_;
  std::shared_ptr<transport::siblings::HostRings> rings_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace pvrdma::sim
