// Shared by the stores' tests: a temporary folder, and an observer that records its calls. Thread: Recorder
// any thread, the rest one.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "control/store/store.h"

namespace pvrdma::control::test {

class TempFolder {
 public:
  TempFolder() {
    std::string name = testing::TempDir() + "pvrdma-store-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
    path_ = name;
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

class Recorder final : public StoreObserver {
 public:
  struct Told {
    std::vector<std::vector<KeyValue>> alls;
    std::vector<std::vector<Change>> changes;
    std::vector<std::pair<bool, std::string>> connections;
    int leases_lost = 0;
    std::map<std::string, std::string> mirror;  // the result of on_all() and on_changes()

    bool connected() const { return !connections.empty() && connections.back().first; }
    bool has(const std::string& key) const { return mirror.contains(key); }
  };

  void on_all(std::vector<KeyValue> records) override {
    note([&] {
      told_.mirror.clear();
      for (const KeyValue& record : records) told_.mirror[record.key] = record.value;
      told_.alls.push_back(records);
    });
  }
  void on_changes(std::vector<Change> changes) override {
    note([&] {
      for (const Change& change : changes) {
        if (change.value) {
          told_.mirror[change.key] = *change.value;
        } else {
          told_.mirror.erase(change.key);
        }
      }
      told_.changes.push_back(changes);
    });
    if (then_) then_(changes);
  }
  void on_connection(bool connected, std::string why) override {
    note([&] { told_.connections.emplace_back(connected, why); });
  }
  void on_lease_lost() override {
    note([&] { ++told_.leases_lost; });
  }

  // Sets a function that is called at the end of each on_changes(), without a lock. Call it before the store
  // starts.
  void then(std::function<void(const std::vector<Change>&)> call) { then_ = std::move(call); }

  Told told() {
    const std::scoped_lock lock(mutex_);
    return told_;
  }

  // False only if it did not happen within a minute: a hang guard.
  template <typename Predicate>
  bool wait(Predicate predicate) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [&] { return predicate(std::as_const(told_)); });
  }
  bool wait_connected() {
    return wait([](const Told& told) { return told.connected(); });
  }
  bool wait_away() {
    return wait([](const Told& told) { return !told.connections.empty() && !told.connections.back().first; });
  }

 private:
  template <typename Change>
  void note(Change change) {
    EXPECT_FALSE(inside_.exchange(true)) << "the observer is called by two threads at once";
    {
      const std::scoped_lock lock(mutex_);
      change();
    }
    changed_.notify_all();
    inside_ = false;
  }

  std::function<void(const std::vector<Change>&)> then_;
  std::atomic<bool> inside_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  Told told_;
};

inline Change put(std::string key, std::string value) {
  return {std::move(key), std::move(value), false};
}
inline Change put_leased(std::string key, std::string value) {
  return {std::move(key), std::move(value), true};
}
inline Change erase(std::string key) {
  return {std::move(key), std::nullopt, false};
}

}  // namespace pvrdma::control::test
