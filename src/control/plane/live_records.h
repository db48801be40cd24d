// LiveRecords: keeps what this process wants under its lease in the store: puts it, puts it again when the
// lease or the record was lost, deletes it when it is no longer wanted.
//
// A record is put only where there is none, one of this host's own values, or one that it replaces; a key
// that another host holds is reported once, counted, and tried again each second. What was asked for first is
// done first, as far as write_rates.h lets it: a record that changes all the time is written now and then,
// and its last value always.
//
// Thread: any; the work is done on a thread of its own between start() and stop().
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
  static constexpr std::size_t kBatchRecords = 32;  // in one transaction
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

  // `account`: all writes of one account share a rate limit; empty: no account limit.
  // `replaces`: another host's value that this record may overwrite; empty: no such value.
  void set(std::string key, std::string value, std::string account = {}, std::string replaces = {});
  // `after` that time, unless another value is there by then.
  void clear(const std::string& key, std::chrono::milliseconds after = {});

  // The events that the store reports.
  void on_connection(bool connected);
  void on_all(const std::vector<KeyValue>& records);
  void on_changes(const std::vector<Change>& changes);
  void on_lease_lost();

  // How often a record was found to be another host's.
  std::uint64_t conflicts() const;

 private:
  using Time = std::chrono::steady_clock::time_point;

  struct Entry {
    std::optional<std::string> wanted;   // nullopt: to be deleted
    std::vector<std::string> may_exist;  // values that may be in the store and are this host's to change
    std::string account;
    bool foreign = false;
    Time retry_at{};
    std::uint64_t serial = 0;  // another one: what is under way for this key is not enough
    std::uint64_t place = 0;   // in pending_; 0: the store has it as wanted
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
  // The error is the store's; what came before it is finished.
  Result<void> carry_out(const std::vector<Task>& tasks);
  Result<bool> put_new(const std::vector<Task>& tasks);
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
  std::map<std::uint64_t, std::string> pending_;  // by place: keys that the store does not have as wanted
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
