// Plane: this host's member of the control plane. Keeps the cluster's Inventory in memory as the store says
// it is, carries out edits as transactions, and keeps this host's live records in the store.
//
// While the store is away: inventory() stays as it was, edits are refused with a sentence that says so, live
// records wait; when it is back the plane catches up by itself.
//
// Thread: all functions any thread; edit() blocks for a bounded time.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "control/model/inventory.h"
#include "control/store/store.h"

namespace pvrdma::control {

struct StoreState {
  bool connected = false;
  std::string description;  // Store::description()
  std::string trouble;      // why it is not connected
  std::uint64_t edits = 0;
  std::uint64_t conflicts = 0;       // edits tried again because another host was faster
  std::uint64_t live_conflicts = 0;  // live records that another host holds
  std::uint64_t bad_records = 0;     // records that this version did not understand
  std::uint64_t resyncs = 0;         // on_all() after the first
  std::uint64_t size_bytes = 0;      // of its file; 0: it does not matter, or is not known yet
  std::uint64_t used_bytes = 0;      // of that
  std::string alarms;     // the store's alarms for which it refuses changes; empty: it has no alarm
  std::string caretaker;  // the host that makes the store forget old revisions; empty: no host does
};

// Learns that something has changed; the observer then asks the plane for it. Called on the store's threads,
// one call at a time, and from inside edit() and the plane's start: must not block and must not call the
// plane. Not called any more when the plane has been destroyed.
class PlaneObserver {
 public:
  virtual ~PlaneObserver() = default;
  // inventory() has changed.
  virtual void on_inventory() = 0;
  // Whether the store is reached; may be told again without a change. Until the first call it is not.
  virtual void on_store(bool connected) = 0;
};

class Plane {
 public:
  using Edit = std::function<Result<void>(Inventory&)>;
  using StopAsked = std::function<bool()>;

  // `host` is this host's name. `store` is started here. `observer` is borrowed and may be null. Waits for
  // the first inventory at most `patience`, so that a daemon whose store is up starts with it; a store that
  // cannot be reached is no error. A daemon that the store still knows by this host's name may be this one's
  // last life, killed: its record is waited for, to end with its lease, Store::lease() and `patience` at
  // most. `stop_asked` (none: never) ends that wait. Errors: Store::start()'s; another living daemon has this
  // host's name (EADDRINUSE); stop_asked() (ECANCELED).
  static Result<std::unique_ptr<Plane>> start(std::string host, std::string instance,
                                              std::unique_ptr<Store> store, PlaneObserver* observer,
                                              std::chrono::milliseconds patience = std::chrono::seconds(5),
                                              const StopAsked& stop_asked = nullptr);
  ~Plane();

  const std::string& host() const;
  std::shared_ptr<const Inventory> inventory() const;  // never null
  StoreState store_state() const;
  // Runs `edit` on a copy and commits the difference; on a conflict again on the newer inventory, a bounded
  // number of times. On return inventory() has the change. Errors: the edit's own; EAGAIN: the store is away
  // or too much contention.
  Result<void> edit(const Edit& edit);

  // A live record of this host that is to be in the store while this process lives. A second call replaces
  // the value. Returns at once. When another host holds the key (a GID, a powered-on VM), that is logged and
  // tried again until it is free.
  // `account`, `replaces`: LiveRecords'.
  void set_live(std::string key, std::string value, std::string account = {}, std::string replaces = {});
  void clear_live(std::string key, std::chrono::milliseconds after = {});

  // When it is destroyed, this host's live records stay until their lease ends, for its next life to put them
  // again. By the thread that destroys it.
  void leave_records();

  // Looks how the store fares and, when this host is the one to do it, makes it forget old revisions
  // (caretaker.h). To be called now and then; blocks for some seconds at most.
  void look_after_store(Instant now);

 private:
  struct Impl;
  explicit Plane(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pvrdma::control
