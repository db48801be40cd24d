// AdapterSet: the adapters that this host serves. Those of the configuration file always exist. Those of the
// cluster's VMs come and go as the cluster's view requires.
//
// A connected VMM is never disturbed: changes to its adapter wait until it has left. An adapter that cannot
// be made is tried again until it can. A VM that a rule forbids to power on has its socket, but its VMM is
// turned away, and the rule is logged.
//
// Thread: shard-owned; add_static() and start() are called before the loop runs. set_wanted() is called from
// a task posted to the loop, so that adapters do not come and go inside one another's calls.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "adapters/adapter_trouble.h"
#include "adapters/moving_adapter.h"
#include "adapters/native_links.h"
#include "adapters/power_observer.h"
#include "adapters/served_adapter.h"
#include "adapters/wanted_adapter.h"
#include "base/log.h"
#include "base/result.h"
#include "base/time.h"
#include "control/config/config.h"
#include "fabric/fabric.h"
#include "shard/loop.h"
#include "verbs/host_account.h"
#include "vocabulary/budgets.h"

namespace pvrdma::adapters {

class AdapterSet final : private shard::Pollable {
 public:
  static constexpr Duration kRetryInterval = std::chrono::seconds(1);

  // `vm_budgets` are those of each of the cluster's VMs. The rest is borrowed and outlives this. `power`,
  // `account`, `reaper`, `natives`, `keeping` and `offences` may be null; without `account`, no totals apply.
  // An adapter of which `keeping` has a record is taken back when it is made.
  AdapterSet(fabric::Fabric& fabric, shard::Loop& loop, const Clock& clock, PowerObserver* power = nullptr,
             const Budgets& vm_budgets = {}, verbs::HostAccount* account = nullptr, Reaper* reaper = nullptr,
             const NativeLinks* natives = nullptr, Keeping* keeping = nullptr,
             OffenceObserver* offences = nullptr);
  ~AdapterSet() override;
  AdapterSet(const AdapterSet&) = delete;
  AdapterSet& operator=(const AdapterSet&) = delete;

  // No VM's adapter is made with this name: another shard may have an adapter of the configuration that has
  // it. Called before start().
  void reserve(const std::string& name) { reserved_.insert(name); }
  // Adds an adapter that the cluster does not know, in the segment that is local to this host. It listens at
  // once. Its name is reserved. Errors: as ServedAdapter::create().
  Result<void> add_static(const control::AdapterConfig& config);
  // Begins to serve. Called once. Errors: epoll's errno.
  Result<void> start();

  // Sets which of the cluster's adapters this shard must serve. `on_this_host`: those of all shards, by name.
  // Kept records of others are dropped.
  void set_wanted(std::vector<WantedAdapter> wanted, const std::set<std::string>& on_this_host);

  // --- An adapter moves to another shard (shard_placement.h); called from tasks of the loops. It is neither
  // changed nor removed meanwhile ---

  // On the shard that it leaves. Errors, after which nothing has changed: kNotFound; kConflict: it must stay
  // now.
  Result<MovingAdapter> begin_to_leave(const std::string& name);
  // On the shard that it comes to. Errors: kConflict: this shard is to have a new adapter of that name; those
  // of ServedAdapter's create(), start() and begin_to_come(); nothing is left here.
  Result<fabric::HostGids::Holder> begin_to_come(const MovingAdapter& moving);
  // On the shard that it leaves: the adapter is the follower's now. Allocates nothing.
  void hand_over(const std::string& name, const fabric::HostGids::Holder& follower);
  // On the shard that it came to, if the shard that it leaves keeps it.
  void turn_away(const std::string& name);
  // On the shard where it is from now on.
  void settle(const std::string& name);

  const std::vector<std::unique_ptr<ServedAdapter>>& adapters() const { return adapters_; }
  // Null: no such adapter.
  ServedAdapter* find(const std::string& name) const;
  std::vector<AdapterTrouble> troubles() const;
  // How the adapter, which is one of these, reaches native endpoints.
  NativeAccess native_access(const ServedAdapter& adapter) const;

 private:
  // The adapter of one of the cluster's VMs.
  struct Provided {
    WantedAdapter made;                // what the adapter was made for
    ServedAdapter* adapter = nullptr;  // null: making it failed
    std::string trouble;
    // Whether it was made as its kept client was told, which differs from what is wanted.
    bool is_as_before = false;
    bool is_moving() const { return adapter != nullptr && adapter->is_moving(); }
    bool is_outdated() const { return is_as_before && adapter != nullptr && !adapter->has_client(); }
  };

  void on_client(const ServedAdapter& adapter, bool connected);
  void on_engine_gone(const verbs::Engine& engine);
  bool run(Instant /*now*/) override { return false; }
  void on_time(Instant now) override;
  Instant next_deadline() const override { return due_; }
  bool polls() const override { return false; }
  std::string what() const override { return "the adapter set"; }

  bool is_static(const std::string& name) const;
  Result<std::unique_ptr<ServedAdapter>> make_follower(const MovingAdapter& moving);
  void enter(const MovingAdapter& moving, ServedAdapter& served);
  void forget(const std::string& name);
  // What the daemon's previous process kept of it; null: nothing.
  std::shared_ptr<const GivenBack> given_to(const std::string& name) const;
  void take_back(ServedAdapter& adapter);
  void report_natives(const ServedAdapter& adapter);
  void reconcile();
  void drop_unwanted();
  void provide(const WantedAdapter& wanted);
  Result<void> make(Provided& provided);
  void remove(Provided& provided);
  void destroy(const ServedAdapter& adapter);

  fabric::Fabric& fabric_;
  shard::Loop& loop_;
  const Clock& clock_;
  PowerObserver* const power_;
  const NativeLinks* const natives_;
  const ServingParts parts_;
  const Budgets vm_budgets_;
  verbs::HostAccount* const account_;
  std::vector<std::unique_ptr<ServedAdapter>> adapters_;
  std::map<std::string, control::AdapterConfig> statics_;  // the adapters of the configuration, by name
  std::set<std::string> reserved_;                         // names
  std::map<std::string, WantedAdapter> wanted_;            // by VM
  std::map<std::string, Provided> provided_;               // by VM
  bool started_ = false;
  log::LogLimiter native_log_;      // limited, because VMMs decide how often they connect
  Instant due_ = Instant::never();  // when reconcile() runs next
};

}  // namespace pvrdma::adapters
