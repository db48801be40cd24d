// Daemon: the object graph of pvrdmad, from a checked configuration to a running shard, and back.
//
// Starting is all or nothing. Every socket is bound before anything is served or announced, and a failure
// removes what was made. A member of a cluster reads the store before it binds the API socket, and joins
// afterwards; then the daemon serves. Adapters of the cluster's VMs come later, when the cluster's view
// arrives.
//
// Stopping: the API ends first, so clients ask no more; then the calls of other hosts, which may still have
// read from it. The host's live records are removed from the store. Each shard finishes its turn and its
// posted tasks. When no shard has a thread any more, adapters, transports and fabrics are destroyed, and each
// socket file is removed. With a descriptor store, the next process continues with the adapters
// (adapters/keeper.h), and the live records stay for it.
//
// Thread: created, started, stopped and destroyed by main(); the shards and the API have threads of their
// own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapters/keeper.h"
#include "adapters/shard_balancer.h"
#include "adapters/shard_captures.h"
#include "adapters/shard_faults.h"
#include "adapters/shard_links.h"
#include "adapters/shard_placement.h"
#include "adapters/shards.h"
#include "adapters/ward.h"
#include "api/api_server.h"
#include "api/host_reads.h"
#include "base/reaper.h"
#include "base/result.h"
#include "base/time.h"
#include "calls/host_calls.h"
#include "calls/incoming_calls.h"
#include "cluster/membership.h"
#include "control/config/config.h"
#include "fabric/host_gids.h"
#include "keep/descriptor_store.h"
#include "moves/checkpoints.h"
#include "moves/motions.h"
#include "moves/shard_side.h"
#include "moves/upgrades.h"
#include "pvrdmad/shard_rig.h"
#include "shard/loop.h"
#include "snapshots/shard_snapshots.h"
#include "tls/certificates.h"
#include "transport/hca/call_introducer.h"
#include "transport/hca/nic_checks.h"
#include "transport/hca/worker.h"
#include "verbs/host_account.h"

namespace pvrdma::daemon {

class Daemon {
 public:
  // Binds every socket and joins the cluster. That may take some seconds, or as long as a lease if this
  // host's daemon was killed shortly before. `stop_asked` ends that wait by returning true (ECANCELED);
  // empty: nothing ends it. Errors: one sentence for the operator; nothing is left behind.
  // `store` is borrowed, outlives the daemon and may be null.
  static Result<std::unique_ptr<Daemon>> create(const control::Config& config, const std::string& version,
                                                const control::Plane::StopAsked& stop_asked = nullptr,
                                                keep::DescriptorStore* store = nullptr);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Starts the threads. Called once. Errors: the kernel refuses to watch a socket.
  Result<void> start();

  // Whether an adapter has a client, or a shard does not answer in time. Blocks; for main's thread.
  bool has_client();

  // The certificates of [tcp] and [api]. Their functions block, so they are for main's thread.
  const tls::Certificates& certificates() const { return certificates_; }

 private:
  Daemon() = default;
  Result<void> build(const control::Config& config, const std::string& version,
                     const control::Plane::StopAsked& stop_asked, keep::DescriptorStore* store);
  // The steps of build(), in its order. Those with an optional configuration do nothing without it.
  Result<void> make_loops(const control::DaemonConfig& config);
  void make_keeper(keep::DescriptorStore* store);
  void make_membership(const control::Config& config, const std::string& version);
  Result<void> make_rigs();
  Result<void> make_tcp(const std::optional<control::ClusterConfig>& config);
  Result<void> make_adapters(const control::Config& config);
  // Null: nothing is kept.
  adapters::Keeping* keeping();
  Result<void> connect_store(const std::optional<control::ClusterConfig>& config,
                             const control::Plane::StopAsked& stop_asked);
  Result<void> make_host_calls(const std::optional<control::ClusterConfig>& config);
  void make_hca(const std::optional<control::ClusterConfig>& config);
  void make_controls(const control::DaemonConfig& config, const std::string& version);
  void make_moves(const control::DaemonConfig& config);
  void make_reads();
  Result<void> listen(const control::Config& config, const std::string& version);
  // From now on, other hosts may read from this one.
  void answer_reads();
  Result<void> make_threads(const control::DaemonConfig& config);
  void announce();

  // Adapters come to the ward only later.
  std::size_t shards_without_ward() const { return loops_.size() - (ward_number_ ? 1 : 0); }
  // The shard of an adapter of the configuration, by its place there.
  std::size_t shard_of(std::size_t adapter) const { return adapter % shards_without_ward(); }
  // The shard that lets other hosts in, and has the links to native endpoints.
  ShardRig& first() { return *rigs_.front(); }
  api::HostProof host_proof();
  std::vector<snapshots::CounterGroup> process_counters() const;

  // In the order of dependence: each borrows from those before it.
  SteadyClock clock_;
  std::unique_ptr<Reaper> reaper_;
  std::unique_ptr<verbs::HostAccount> account_;           // of the adapters of all shards
  std::optional<transport::ShardNumber> ward_number_;     // the last shard; empty: the host has no ward
  std::vector<std::unique_ptr<shard::Loop>> loops_;       // by shard
  std::unique_ptr<adapters::Keeper> keeper_;              // null: nothing is kept for another process
  adapters::Keeping unstored_{[] {}};                     // used without keeper_
  std::unique_ptr<cluster::Membership> membership_;       // null: not in a cluster
  std::unique_ptr<calls::IncomingCalls> incoming_calls_;  // null if membership_ is
  std::shared_ptr<tls::Context> tls_;                     // of lanes and calls; null: they are plain
  std::unique_ptr<fabric::HostGids> gids_;
  std::unique_ptr<adapters::Ward> ward_;         // null: the host has no ward
  std::vector<std::unique_ptr<ShardRig>> rigs_;  // by shard
  // The next three are null if membership_ is. The rigs' Hca borrows two of them, and ends by end_serving().
  std::unique_ptr<calls::HostCalls> host_calls_;
  std::unique_ptr<transport::hca::CallIntroducer> introducer_;
  std::unique_ptr<transport::hca::WorkerThread> hca_worker_;
  std::unique_ptr<adapters::Shards> shards_;
  std::unique_ptr<snapshots::ShardSnapshots> snapshots_;
  std::unique_ptr<adapters::ShardLinks> adapter_links_;
  std::unique_ptr<adapters::ShardCaptures> captures_;
  std::unique_ptr<adapters::ShardFaults> faults_;
  transport::hca::NicChecks nic_checks_;
  std::unique_ptr<moves::ShardSide> side_;
  std::unique_ptr<moves::Upgrades> upgrades_;
  std::unique_ptr<moves::Checkpoints> checkpoints_;
  std::unique_ptr<moves::Motions> motions_;  // null if membership_ is
  std::unique_ptr<adapters::ShardPlacement> placement_;
  std::unique_ptr<adapters::ShardBalancer> balancer_;  // null: the daemon moves no adapter by itself
  std::unique_ptr<api::HostReads> reads_;              // null if membership_ is
  std::unique_ptr<api::ApiServer> api_;
  tls::Certificates certificates_;
};

}  // namespace pvrdma::daemon
