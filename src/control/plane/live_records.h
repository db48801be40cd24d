// LiveRecords: keeps this process's live records in the store, under its lease. It puts a record, puts it
// again when the lease or the record was lost, and deletes it when it is no longer wanted.
//
// A record is put only if the key is absent, or has one of this host's own values or a value that the record
// replaces. A key that another host holds is reported once, counted, and tried again each second. Requests
// are carried out in order, within the rates of write_rates.h: of a record that changes all the time, some
// values are skipped, but never the last one.
//
// Thread: any. A thread of its own does the work between start() and stop().
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "control/plane/write_rates.h"
#include "control/store/store.h"

namespace pvrdma::control {

class LiveRecords {
 public:
  static constexpr std::size_t kBatchRecords = 32;  // most records in one transaction
  static constexpr std::chrono::milliseconds kForeignPause{1000};
  static constexpr std::chrono::milliseconds kTroublePause{500};
  static constexpr std::chrono::milliseconds kTakenPause{200};

  // `store` is borrowed. `host` is for the log.
  LiveRecords(Store& store, std::string host);
  ~LiveRecords();  // stops
  LiveRecords(const LiveRecords&) = delete;
  LiveRecords& operator=(const LiveRecords&) = delete;

  void start();
  void stop();  // returns when no transaction is under way

  // Puts the record, as soon as the rates allow it if it keeps to them. All writes of one `account` share a
  // rate limit; empty: only the key's limit applies.
  // `replaces`: another host's value that this record may overwrite, and clear() may delete. Empty: no such
  // value.
  void set(std::string key, std::string value, std::string account = {}, std::string replaces = {},
           Pace pace = Pace::kLimited);
  // Deletes the record after that time, unless set() is called or another host's value is there by then.
  void clear(const std::string& key, std::chrono::milliseconds after = {});

  // The store's events; as in StoreObserver.
  void on_connection(bool connected);
  void on_all(const std::vector<KeyValue>& records);
  void on_changes(const std::vector<Change>& changes);
  void on_lease_lost();

  // How often another host was found to hold a key.
  std::uint64_t conflicts() const;

 private:
  using Time = std::chrono::steady_clock::time_point;

  struct Entry {
    std::optional<std::string> wanted;   // nullopt: the record is to be deleted
    std::vector<std::string> may_exist;  // values that may be in the store and are this host's to change
    std::string account;
    Pace pace = Pace::kLimited;
    bool foreign = false;
    Time retry_at{};
    std::uint64_t serial = 0;  // of the newest request; an older task is not enough
    std::uint64_t place = 0;   // the key in pending_; 0: the store has the record as wanted
  };
  struct Task {
    std::string key;
    std::optional<std::string> wanted;
    std::vector<std::string> may_exist;
    std::uint64_t serial = 0;
  };
  enum class Outcome : std::uint8_t { kDone, kForeign };

  void run();
  std::vector<Task> due(Time now);
  Time due_at(const std::string& key, const Entry& entry, Time now) const;
  Time next_due(Time now) const;
  // Errors: the store's. The tasks before the failing one are finished then.
  Result<void> carry_out(const std::vector<Task>& tasks);
  static bool is_plain(const Task& task);
  Result<bool> put_together(const std::vector<Task>& tasks);
  Result<Outcome> put(const Task& task);
  Result<Outcome> erase(const Task& task);
  void finish(const Task& task, Outcome outcome);
  void report(const Task& task);
  void again(const std::string& key, Entry& entry);
  void queue(const std::string& key, Entry& entry);

  Store& store_;
  const std::string host_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, Entry> entries_;
  std::map<std::uint64_t, std::string> pending_;  // by place: keys whose records are not as wanted
  WriteRates rates_;
  bool connected_ = false;
  bool stopping_ = false;
  std::uint64_t next_serial_ = 1;
  std::uint64_t next_place_ = 1;
  std::uint64_t conflicts_ = 0;
  log::LogLimiter log_limit_{20, std::chrono::seconds(1)};  // guests can cause conflicts of GIDs at will
  std::thread thread_;
};

}  // namespace pvrdma::control
