// ShardRig: all that one shard has for itself: its fabric and transports, its adapters, and its thread.
//
// Thread: main()'s, which makes and ends it; while its thread runs, the shard's, like apply().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "adapters/adapter_set.h"
#include "adapters/native_links.h"
#include "adapters/shards.h"
#include "base/result.h"
#include "base/time.h"
#include "cluster/shard_view.h"
#include "control/config/config.h"
#include "fabric/fabric.h"
#include "fabric/fabric_observer.h"
#include "fabric/host_gids.h"
#include "pvrdmad/shard_thread.h"
#include "shard/loop.h"
#include "transport/hca/hca.h"
#include "transport/local/local.h"
#include "transport/roce/roce.h"
#include "transport/siblings/siblings.h"
#include "transport/tcp/passed_lane.h"
#include "transport/tcp/tcp.h"
#include "verbs/host_account.h"

namespace pvrdma::daemon {

class ShardRig {
 public:
  // The others are borrowed and outlive this; `observer` may be null.
  ShardRig(transport::ShardNumber number, shard::Loop& loop, const Clock& clock, fabric::HostGids& gids,
           fabric::FabricObserver* observer);
  ShardRig(const ShardRig&) = delete;
  ShardRig& operator=(const ShardRig&) = delete;

  // The steps of making it, in this order. All but make_adapters() and make_thread() may be left out. Their
  // arguments are those of the objects that they make.
  Result<void> make_siblings(std::shared_ptr<transport::siblings::HostRings> rings);
  Result<void> make_tcp(const transport::TcpOptions& options);
  Result<void> make_roce(const std::vector<control::RoceConfig>& links, const TotalBudgets& totals);
  void make_adapters(const std::vector<control::RoceConfig>& links, adapters::PowerObserver* power,
                     const Budgets& vm_budgets, verbs::HostAccount& account, Reaper& reaper,
                     adapters::Keeping* keeping, adapters::OffenceObserver* offences);
  // After make_tcp(). `refused`: see HcaOptions.
  void make_hca(transport::hca::Introducer& introducer, transport::hca::Worker& worker,
                const std::string& refused);
  Result<void> make_thread(std::optional<std::uint32_t> core);

  void start_thread() { thread_->start(); }
  // Ends the loop, if it runs, and waits for the thread's end.
  void end_thread() { thread_.reset(); }
  // Ends the adapters, and then all that uses objects of the daemon which end before this one. Called when no
  // shard has a thread any more.
  void end_serving();

  // Runs on the shard, after make_siblings(): an adapter works again, so those of `other` send
  // again what they sent to it. If the mailbox of `other` is full, or memory runs out, they do so for all
  // adapters of this shard.
  void tell_works_again(ShardRig& other, transport::SegmentId segment, fabric::HostGids::PortNumber port);

  // Gives a lane of a peer to this shard's Tcp. Any thread. False: the mailbox is full or the shard has
  // stopped; then the lane is gone, as without memory (bad_alloc).
  bool take_lane(std::unique_ptr<transport::tcp::PassedLane> lane);

  // Runs on the shard, which has make_tcp() behind it.
  void apply(const cluster::ShardView& view);

  // As other threads know this shard; after make_adapters().
  adapters::Shard shard() { return {loop_, *adapters_, fabric_, roce_.get(), siblings_.get()}; }
  adapters::AdapterSet& adapters() { return *adapters_; }
  transport::Tcp* tcp() { return tcp_.get(); }  // null: not made, as for the next
  transport::Hca* hca() { return hca_.get(); }

 private:
  // In the order of dependence: each borrows from those before it.
  const transport::ShardNumber number_;
  shard::Loop& loop_;
  const Clock& clock_;
  transport::Local local_;
  fabric::Fabric fabric_;
  std::unique_ptr<transport::Siblings> siblings_;
  std::unique_ptr<transport::Tcp> tcp_;
  std::unique_ptr<transport::Hca> hca_;
  std::unique_ptr<transport::Roce> roce_;
  std::vector<control::RoceConfig> links_;  // of roce_; the index is the link's number
  std::unique_ptr<adapters::NativeLinks> natives_;
  std::unique_ptr<adapters::AdapterSet> adapters_;
  std::unique_ptr<ShardThread> thread_;
};

}  // namespace pvrdma::daemon
