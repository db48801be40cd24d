// FakeCluster and FakeStore: an etcd in memory, as strict as control/store/store.h demands. A test can make
// it unreachable, late or ambiguous, or make it lose leases. Several FakeStores of one FakeCluster are
// several hosts' views of one store.
//
// Notices are delivered inside the commit that caused them, to all stores, one at a time. Thread: any.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "control/store/store.h"

namespace pvrdma::control {

class FakeStore;

class FakeCluster {
 public:
  using Records = std::map<std::string, std::string>;

  Records records() {
    const std::lock_guard lock(mutex_);
    return records_;
  }
  std::optional<std::string> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto it = records_.find(key);
    return it == records_.end() ? std::nullopt : std::optional(it->second);
  }
  // Changes by a host that has no FakeStore.
  void put(const std::string& key, const std::string& value) { change({{key, value}}); }
  void erase(const std::string& key) { change({{key, std::nullopt}}); }

  // All committed transactions.
  std::vector<Transaction> committed() {
    const std::lock_guard lock(mutex_);
    return committed_;
  }

 private:
  friend class FakeStore;
  void change(const std::vector<Change>& changes) {
    const std::lock_guard lock(mutex_);
    apply(changes, nullptr);
  }
  bool holds(const Expectation& expectation) const {
    const auto it = records_.find(expectation.key);
    if (it == records_.end()) return !expectation.value;
    return expectation.value == it->second;
  }
  inline void apply(const std::vector<Change>& changes, FakeStore* owner);

  std::mutex mutex_;
  Records records_;
  std::map<std::string, FakeStore*> leased_;
  std::vector<FakeStore*> stores_;
  std::vector<Transaction> committed_;
};

class FakeStore final : public Store {
 public:
  explicit FakeStore(std::shared_ptr<FakeCluster> cluster) : cluster_(std::move(cluster)) {}
  ~FakeStore() override { stop(LeasedRecords::kGiveBack); }

  // --- Events ---

  void go_away(const std::string& why) {
    const std::lock_guard lock(cluster_->mutex_);
    away_ = why;
    if (observer_ != nullptr) observer_->on_connection(false, why);
  }
  void come_back() {
    const std::lock_guard lock(cluster_->mutex_);
    away_.reset();
    if (observer_ == nullptr) return;
    tell_all();
    observer_->on_connection(true, "");
  }
  // The store's leased records vanish, and its observer is told.
  void lose_lease() {
    const std::lock_guard lock(cluster_->mutex_);
    cluster_->apply(erase_leased(), this);
    observer_->on_lease_lost();
  }
  // Notices wait until release_notices().
  void hold_notices() {
    const std::lock_guard lock(cluster_->mutex_);
    held_.emplace();
  }
  void release_notices() {
    const std::lock_guard lock(cluster_->mutex_);
    if (!held_) return;
    const auto held = std::exchange(held_, std::nullopt);
    for (const auto& changes : *held) observer_->on_changes(changes);
  }
  // The next commit is carried out, but answered with an error.
  void lose_next_answer() {
    const std::lock_guard lock(cluster_->mutex_);
    lose_answer_ = true;
  }
  // Each commit calls this before it is carried out, in its thread. Set it only while no commit runs.
  void before_commit(std::function<void()> call) { before_commit_ = std::move(call); }
  // Call it before start().
  void set_lease(std::chrono::seconds lease) { lease_ = lease; }

  // --- Store ---

  std::string description() const override { return "fake"; }
  std::chrono::seconds lease() const override { return lease_; }

  Result<void> start(StoreObserver& observer) override {
    const std::lock_guard lock(cluster_->mutex_);
    observer_ = &observer;
    cluster_->stores_.push_back(this);
    if (away_) {
      observer_->on_connection(false, *away_);
    } else {
      tell_all();
      observer_->on_connection(true, "");
    }
    return {};
  }

  void stop(LeasedRecords records) override {
    const std::lock_guard lock(cluster_->mutex_);
    if (std::exchange(stopped_, true)) return;
    observer_ = nullptr;
    std::erase(cluster_->stores_, this);
    if (records == LeasedRecords::kGiveBack) cluster_->apply(erase_leased(), this);
  }

  Result<Commit> commit(const Transaction& transaction) override {
    if (before_commit_) before_commit_();
    const std::lock_guard lock(cluster_->mutex_);
    if (away_) return fail(ErrorKind::kUnavailable, "store fake: is away: nothing was changed");
    for (const Expectation& expectation : transaction.expects) {
      if (!cluster_->holds(expectation)) return Commit::kConflict;
    }
    cluster_->committed_.push_back(transaction);
    cluster_->apply(transaction.changes, this);
    if (std::exchange(lose_answer_, false)) {
      return fail(ErrorKind::kUnavailable,
                  "store fake: did not answer: the change may or may not have been made");
    }
    return Commit::kCommitted;
  }

  Result<std::vector<KeyValue>> read_all() override {
    const std::lock_guard lock(cluster_->mutex_);
    if (away_) return fail(ErrorKind::kUnavailable, "store fake: is away");
    return all();
  }

 private:
  friend class FakeCluster;

  std::vector<KeyValue> all() const {
    std::vector<KeyValue> all;
    for (const auto& [key, value] : cluster_->records_) all.push_back({key, value});
    return all;
  }
  void tell_all() { observer_->on_all(all()); }
  std::vector<Change> erase_leased() const {
    std::vector<Change> changes;
    for (const auto& [key, owner] : cluster_->leased_) {
      if (owner == this) changes.push_back({key, std::nullopt});
    }
    return changes;
  }

  const std::shared_ptr<FakeCluster> cluster_;
  StoreObserver* observer_ = nullptr;  // borrowed
  bool stopped_ = false;
  std::optional<std::string> away_;
  std::optional<std::vector<std::vector<Change>>> held_;
  std::function<void()> before_commit_;
  bool lose_answer_ = false;
  std::chrono::seconds lease_{0};
};

inline void FakeCluster::apply(const std::vector<Change>& changes, FakeStore* owner) {
  if (changes.empty()) return;
  for (const Change& change : changes) {
    leased_.erase(change.key);
    if (change.value) {
      records_[change.key] = *change.value;
      if (change.leased) leased_[change.key] = owner;
    } else {
      records_.erase(change.key);
    }
  }
  for (FakeStore* store : stores_) {
    if (store->away_) continue;
    if (store->held_) {
      store->held_->push_back(changes);
    } else {
      store->observer_->on_changes(changes);
    }
  }
}

// Waits until `predicate` holds. False: it did not within a minute, which is a guard against hanging.
inline bool eventually(const std::function<bool()>& predicate) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!predicate()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace pvrdma::control
