// Membership: this daemon as a member of a cluster. Owns the plane, sends the shard what the cluster means
// for it (view_feed.h), and publishes what this host is and holds (presence.h).
//
// One thread owns all of that. Whoever else has news, the shard and the plane, leaves them in its queue
// (news_queue.h) and goes on.
//
// Life: made, connect(), join(), stop() while the shard still runs, destroyed after it has ended. Thread: all
// of that by one thread; the observers' functions any thread, never blocking.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "adapters/power_observer.h"
#include "base/result.h"
#include "base/time.h"
#include "cluster/news_queue.h"
#include "cluster/presence.h"
#include "cluster/view_feed.h"
#include "control/config/config.h"
#include "control/plane/plane.h"
#include "control/store/store.h"
#include "fabric/observer.h"
#include "shard/loop.h"

namespace pvrdma::cluster {

class Membership final : public fabric::Observer,
                         public adapters::PowerObserver,
                         private control::PlaneObserver {
 public:
  // `loop` and `clock` are borrowed and outlive this. `apply` runs on the loop's thread, as a task.
  // `instance`: that of this host's last life, which is over, and whose live records this one takes over;
  // empty: none.
  Membership(const control::ClusterConfig& config, std::string version, shard::Loop& loop, const Clock& clock,
             ViewSlot::Apply apply, std::string instance = {});
  ~Membership() override;
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  // Reads the store, and writes nothing. Blocks as Plane::start() does. Once. Errors: as Plane::start(); a
  // store that is away is none.
  Result<void> connect(std::unique_ptr<control::Store> store,
                       const control::Plane::StopAsked& stop_asked = nullptr);
  // Puts this host into the store, now or, when the store is away, later. Blocks for some seconds at most.
  // Once, after connect().
  void join();
  // Leaves. What is told later is ignored.
  void stop(control::LeasedRecords records = control::LeasedRecords::kGiveBack);

  const std::string& instance() const { return presence_.instance(); }

  // Null before connect() and after stop().
  control::Plane* plane() const { return plane_.get(); }

  void on_gid_bound(transport::SegmentId segment, const verbs::Gid& gid, const std::string& port) override;
  void on_gid_unbound(transport::SegmentId segment, const verbs::Gid& gid) override;
  void on_host_up(transport::HostId host, bool up) override { news_.host_up(host, up); }
  void on_power(const std::string& vm, bool on) override { news_.powered(vm, on); }

 private:
  void on_inventory() override { news_.inventory_changed(); }
  void on_store(bool connected) override { news_.store_connected(connected); }

  void run();
  void take(const News& news);
  void renew_view();

  // Each view costs all daemons the whole inventory: it is made at most so often, and takes at most a fifth
  // of the time.
  static constexpr Duration kViewPause = std::chrono::milliseconds(50);
  static constexpr int kViewShare = 4;

  const std::string host_name_;
  const Clock& clock_;
  NewsQueue news_;
  // Until join() and after stop() their caller's, in between the thread's.
  Presence presence_;
  ViewFeed feed_;
  std::unique_ptr<control::Plane> plane_;
  bool inventory_changed_ = false;  // since the last view
  Instant next_view_{};
  std::thread thread_;
};

}  // namespace pvrdma::cluster
