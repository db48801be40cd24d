// Membership: this daemon as a member of a cluster. Owns the plane, turns its inventory into views for the
// shard, and keeps this host's live records: the host with what it has, VMs that are on, GIDs that are bound.
//
// The shard gets the newest view only: one that it has not taken yet is replaced, an equal one is not sent.
//
// Life: made, connect(), join(), stop() while the shard still runs, destroyed after it has ended. Thread:
// all of that by one thread; fabric::Observer's and adapters::PowerObserver's functions are the shard's; it
// has a thread of its own for discovery and retries.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "adapters/adapter_set.h"
#include "base/result.h"
#include "base/time.h"
#include "cluster/host_view.h"
#include "cluster/linger.h"
#include "control/config.h"
#include "control/model/discovery.h"
#include "control/plane/plane.h"
#include "fabric/observer.h"
#include "shard/loop.h"

namespace pvrdma::cluster {

class Membership final : public fabric::Observer, public adapters::PowerObserver {
 public:
  using Apply = std::function<void(const HostView& view)>;

  // `loop` and `clock` are borrowed and outlive this. `apply` runs on the loop's thread, as a task.
  Membership(const control::ClusterConfig& config, std::string version, shard::Loop& loop, const Clock& clock,
             Apply apply);
  ~Membership() override;
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  // Reads the store, and writes nothing. Blocks as Plane::start() does. Once. Errors: as Plane::start(); a
  // store that is away is none.
  Result<void> connect(const control::Plane::StopAsked& stop_asked = nullptr);
  // Puts this host into the store, now or, when the store is away, later. Blocks for some seconds at most.
  // Once, after connect().
  void join();
  // Leaves: gives the live records back. What the shard tells later is ignored.
  void stop();

  // Null before connect() and after stop().
  control::Plane* plane() const { return plane_.get(); }

  void on_gid_bound(transport::SegmentId segment, const verbs::Gid& gid, const std::string& port) override;
  void on_gid_unbound(transport::SegmentId segment, const verbs::Gid& gid) override;
  void on_host_up(transport::HostId host, bool up) override;
  void on_power(const std::string& vm, bool on) override;

 private:
  using InventoryPtr = std::shared_ptr<const control::Inventory>;

  // `newest` null: the last one again.
  void recompute(InventoryPtr newest);
  bool store_connected() const;
  void send(HostView view);
  void post_pending();
  void apply_pending();
  void report_paths(const fabric::View& before, const fabric::View& now) const;

  void keep_up();
  void publish_host();
  void join_inventory();
  void set_live(std::string key, std::string value);
  void clear_live(std::string key);

  const control::ClusterConfig config_;
  const std::string version_;
  const std::string instance_;  // random: tells two lives of this host apart
  shard::Loop& loop_;
  const Clock& clock_;
  const Apply apply_;

  mutable std::mutex plane_mutex_;
  std::unique_ptr<control::Plane> plane_;  // set and reset under plane_mutex_, by the owner's thread

  mutable std::mutex up_mutex_;
  std::set<transport::HostId> up_;  // connections to them stand

  std::mutex view_mutex_;  // what turns inventories into views
  HostIds ids_;
  Linger linger_;
  InventoryPtr newest_;
  std::optional<HostView> last_;

  std::mutex pending_mutex_;
  std::optional<HostView> pending_;  // not taken by the shard yet
  bool posted_ = false;              // a task that takes it is under way

  // Those of join(), then the own thread's.
  std::optional<control::Discovered> discovered_;
  bool joined_ = false;
  bool join_failure_logged_ = false;

  std::mutex stop_mutex_;
  std::condition_variable stop_changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace pvrdma::cluster
