// Plane: this host's part of the control plane. It keeps the cluster's Inventory in memory, up to date with
// the store, carries out edits as transactions, and keeps this host's live records in the store.
//
// While the store cannot be reached, inventory() stays as it was, edits fail with a sentence that says so,
// and live records wait. When the store is back, the plane catches up.
//
// Thread: any. edit() blocks for a bounded time.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "control/model/inventory.h"
#include "control/plane/write_rates.h"
#include "control/store/store.h"

namespace pvrdma::control {

struct StoreState {
  bool connected = false;
  std::string description;  // Store::description()
  std::string trouble;      // why the store is not connected
  std::uint64_t edits = 0;
  std::uint64_t conflicts = 0;       // edits tried again because another host was faster
  std::uint64_t live_conflicts = 0;  // live records that another host holds
  std::uint64_t bad_records = 0;     // records that this version did not understand
  std::uint64_t resyncs = 0;         // calls of on_all() after the first
  std::uint64_t size_bytes = 0;      // of the store's file; 0: it does not matter, or is not known yet
  std::uint64_t used_bytes = 0;      // used bytes of the file
  std::string alarms;     // the store's alarms for which it refuses changes; empty: it has no alarm
  std::string caretaker;  // the host that makes the store forget old revisions; empty: no host does
};

// Is told that something has changed, and then asks the plane for it. Called on the store's threads, one call
// at a time, and from inside edit() and the plane's start. It must not block and must not call the plane. No
// call comes after the plane's destruction.
class PlaneObserver {
 public:
  virtual ~PlaneObserver() = default;
  // inventory() has changed.
  virtual void on_inventory() = 0;
  // Whether the store can be reached. It cannot until the first call. Calls may repeat the same value.
  virtual void on_store(bool connected) = 0;
};

class Plane {
 public:
  using Edit = std::function<Result<void>(Inventory&)>;
  using Committed = std::function<void(const Inventory& before, const Inventory& after)>;
  using StopAsked = std::function<bool()>;

  // `host` is this host's name. Starts `store`. `observer` is borrowed and may be null. Waits at most
  // `patience` for the first inventory, so that a daemon starts with it if its store is up. A store that
  // cannot be reached is not an error. If the store has a record of another daemon with this host's name,
  // that daemon may be this host's previous one, killed. So start() waits until the record's lease ends, at
  // most Store::lease() and `patience`. `stop_asked` ends that wait by returning true; empty: nothing does.
  // Errors: those of Store::start(); EADDRINUSE: another living daemon has this host's name; ECANCELED:
  // stop_asked().
  static Result<std::unique_ptr<Plane>> start(std::string host, std::string instance,
                                              std::unique_ptr<Store> store, PlaneObserver* observer,
                                              std::chrono::milliseconds patience = std::chrono::seconds(5),
                                              const StopAsked& stop_asked = nullptr);
  ~Plane();

  const std::string& host() const;
  std::shared_ptr<const Inventory> inventory() const;  // never null
  StoreState store_state() const;
  // Runs `edit` on a copy of the inventory and commits the difference. After a conflict it runs `edit` again
  // on the newer inventory, a bounded number of times. On return inventory() has the change. Errors: the
  // edit's own; those of Store::commit(); kConflict: the edit changes a record that this version does not
  // understand; kUnavailable: the store cannot be reached, or other edits came first too often.
  // `committed` is called once, when the store has the change, also if edit() fails afterwards because the
  // store's notice of it is late. It is not called for an edit that changes nothing. It must not edit.
  // An exception of it is logged, and the edit goes on.
  Result<void> edit(const Edit& edit, const Committed& committed = nullptr);
  // Runs `edit` on a copy of the inventory, and commits nothing. Errors: as edit() would have them now.
  Result<void> rehearse(const Edit& edit);

  // Keeps a live record of this host in the store while this process lives. A second call replaces the value.
  // Returns at once. If another host holds the key (a GID, a powered-on VM), the plane logs that and tries
  // again until the key is free.
  // `account`, `replaces` and `pace` are as in LiveRecords.
  void set_live(std::string key, std::string value, std::string account = {}, std::string replaces = {},
                Pace pace = Pace::kLimited);
  void clear_live(std::string key, std::chrono::milliseconds after = {});

  // When the plane is destroyed, this host's live records stay until their lease ends, so that the host's
  // next process can put them again. Called by the thread that destroys the plane.
  void leave_records();

  // Checks the store's health. If this host is the caretaker (caretaker.h), also makes the store forget old
  // revisions. Called from time to time; blocks for some seconds at most.
  void look_after_store(Instant now);

 private:
  struct Impl;
  explicit Plane(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pvrdma::control
