// Membership: this daemon as a member of a cluster. It owns the plane, sends the shards their views of the
// cluster (view_feed.h), and publishes this host's state (presence.h).
//
// One thread does all of that. The shards and the plane put their news into its queue (news_queue.h) and go
// on. While an adapter moves between the shards, the thread that moves it has the feed, and the membership's
// thread waits before it sends a view.
//
// Life: construction, connect(), join(), stop() while the shards still run, destruction after they have
// ended. Thread: one thread for these calls; while_held() any but a shard's, between connect() and stop();
// the observers' functions on any thread, never blocking.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "adapters/power_observer.h"
#include "adapters/views.h"
#include "base/result.h"
#include "base/time.h"
#include "cluster/news_queue.h"
#include "cluster/presence.h"
#include "cluster/view_feed.h"
#include "control/config/config.h"
#include "control/plane/plane.h"
#include "control/store/store.h"
#include "fabric/fabric_observer.h"
#include "shard/loop.h"

namespace pvrdma::cluster {

class Membership final : public adapters::PowerObserver,
                         public adapters::Views,
                         private control::PlaneObserver {
 public:
  // `shards`: how many this host has; `loops` are theirs, in their order, and `links` its links to native
  // endpoints. Loops and clock are borrowed and outlive this object. `apply` runs on a loop's thread, as a
  // task. `instance` is that of this host's last process, which has ended and whose live records this one
  // takes over; empty: there is none.
  Membership(const control::ClusterConfig& config, std::string version,
             const std::vector<control::RoceConfig>& links, ShardCount shards,
             const std::vector<shard::Loop*>& loops, const Clock& clock, const ViewFeed::Apply& apply,
             std::string instance = {});
  ~Membership() override;
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  // Reads the store and writes nothing. Blocks like Plane::start(). Call it once. Errors: those of
  // Plane::start(). A store that cannot be reached is not an error.
  Result<void> connect(std::unique_ptr<control::Store> store,
                       const control::Plane::StopAsked& stop_asked = nullptr);
  // Puts this host into the store, or does so later if the store cannot be reached. Blocks for some seconds
  // at most. Call it once, after connect().
  void join();
  // Leaves the cluster. Later news is ignored.
  void stop(control::LeasedRecords records = control::LeasedRecords::kGiveBack);

  const std::string& instance() const { return presence_.instance(); }

  // Null before connect() and after stop().
  control::Plane* plane() const { return plane_.get(); }

  // Takes the news of that shard's fabric.
  fabric::FabricObserver& of_shard(transport::ShardNumber shard) { return shards_.at(shard.value); }
  void on_power(const std::string& vm, bool on) override { news_.powered(vm, on); }

  Result<adapters::Placed> while_held(const std::string& adapter, std::uint32_t shard,
                                      const std::function<Result<adapters::Placed>()>& move) override;

 private:
  class ShardNews final : public fabric::FabricObserver {
   public:
    ShardNews(NewsQueue& news, transport::ShardNumber shard, bool is_ward)
        : news_(news), shard_(shard), is_ward_(is_ward) {}
    void on_gid_bound(transport::SegmentId segment, const verbs::Gid& gid, const std::string& port) override;
    void on_gid_unbound(transport::SegmentId segment, const verbs::Gid& gid) override;
    void on_gid_moved(transport::SegmentId segment, const verbs::Gid& gid) noexcept override;
    void on_host_up(transport::HostId host, bool up) override;

   private:
    NewsQueue& news_;
    const transport::ShardNumber shard_;
    const bool is_ward_;
  };

  void on_inventory() override { news_.inventory_changed(); }
  void on_store(bool connected) override { news_.store_connected(connected); }

  void run();
  void send_views(const News& news, bool is_tick);
  void renew_view();

  // A view costs every daemon a pass over the whole inventory. So views have at least this pause between
  // them, and making them takes at most a fifth of the time.
  static constexpr Duration kViewPause = std::chrono::milliseconds(50);
  static constexpr int kViewShare = 4;

  const std::string host_name_;
  const Clock& clock_;
  NewsQueue news_;
  std::vector<ShardNews> shards_;  // by number
  // Used by the caller's thread before join() and after stop(), and by the membership's thread in between.
  Presence presence_;
  std::mutex views_;  // a thread has it while it uses the feed, and does not wait for the store then
  ViewFeed feed_;
  std::unique_ptr<control::Plane> plane_;
  bool inventory_changed_ = false;  // since the last view
  Instant next_view_{};
  std::thread thread_;
};

}  // namespace pvrdma::cluster
