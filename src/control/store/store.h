// Store: holds the cluster's records: keys and values, changed by transactions and watched by all hosts.
// There are two kinds: embedded (SQLite, one host) and etcd (several hosts).
//
// A change that commit() answered with kCommitted survives kill -9 and power loss. Leased records belong to
// this process: they vanish some seconds after it dies or loses the store (etcd), or at its next start
// (SQLite).
//
// Thread: commit() and read() any thread, blocking for a bounded time. The observer is called from the
// store's own threads or from inside commit(), one call at a time, and never after stop() has returned.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace pvrdma::control {

// What happens to this process's leased records when it stops. Either they end now, or they stay until the
// lease ends, so that the next process can put them again.
enum class LeasedRecords : std::uint8_t { kGiveBack, kLeave };

struct KeyValue {
  std::string key;
  std::string value;
  friend bool operator==(const KeyValue&, const KeyValue&) = default;
};

struct Change {
  std::string key;
  std::optional<std::string> value;  // empty: delete the key
  bool leased = false;               // whether a put is leased
  friend bool operator==(const Change&, const Change&) = default;
};

struct Expectation {
  std::string key;
  std::optional<std::string> value;  // empty: the key must be absent
};

struct Transaction {
  std::vector<Expectation> expects;
  std::vector<Change> changes;
};

enum class Commit : std::uint8_t {
  kCommitted,
  kConflict,  // an expectation did not hold; no record was changed
};

class StoreObserver {
 public:
  virtual ~StoreObserver() = default;
  // All records, which replace all earlier ones. Called at the start, and after watching was interrupted for
  // too long.
  virtual void on_all(std::vector<KeyValue> records) = 0;
  // The changes of one transaction, in the order of the store.
  virtual void on_changes(std::vector<Change> changes) = 0;
  // Whether the store can be changed now; if not, `why` is a sentence. Called again when the reason changes.
  // Initially the store cannot be changed. The store itself notices when it can be changed again, without a
  // call of commit().
  virtual void on_connection(bool connected, std::string why) = 0;
  // This process's leased records are gone or will go. Put them again.
  virtual void on_lease_lost() = 0;
};

// The health of a store that keeps old revisions.
struct StoreHealth {
  std::uint64_t revision = 0;
  std::uint64_t size_bytes = 0;  // size of its file
  std::uint64_t used_bytes = 0;
  std::string alarms;  // alarms for which it refuses changes, one clause; empty: no alarms
};

class Store {
 public:
  virtual ~Store() = default;  // stops

  // Its name for people: "sqlite:/var/lib/pvrdma/store.db", "etcd:http://10.0.0.1:2379".
  virtual std::string description() const = 0;

  // How long a dead process's leased records may stay while it is not restarted. Zero: its next start removes
  // them.
  virtual std::chrono::seconds lease() const = 0;

  // Begins to call the observer (borrowed until stop()). Call it once. Errors that do not pass by themselves:
  // a file that cannot be opened, an unreadable certificate. A store that cannot be reached is not an error
  // here: on_connection() reports it.
  virtual Result<void> start(StoreObserver& observer) = 0;

  // Ends the calls. Handles the leased records as `records` says, if the store can be reached.
  virtual void stop(LeasedRecords records) = 0;

  // Error: the store cannot be reached, cannot be written, or did not answer in time. The sentence says
  // whether the change may have been made. kUnavailable: a later attempt may succeed.
  virtual Result<Commit> commit(const Transaction& transaction) = 0;

  virtual Result<std::vector<KeyValue>> read_all() = 0;

  // Empty: the store keeps no old revisions. health() and forget_before() block like commit().
  virtual Result<std::optional<StoreHealth>> health() { return std::optional<StoreHealth>(); }
  // True: this process need not remove old revisions.
  virtual bool forgets_by_itself() const { return true; }
  // Revisions before `revision` are no longer needed. It is not an error if they are gone already.
  virtual Result<void> forget_before(std::uint64_t /*revision*/) { return {}; }
};

struct SqliteConfig {
  std::string path = "/var/lib/pvrdma/store.db";
};

struct EtcdConfig {
  std::vector<std::string> endpoints;  // "https://10.0.0.1:2379", tried in turn
  std::string prefix = "/pvrdma/v1/";
  std::string user;  // empty: no authentication
  std::string password;
  std::string ca_file;  // empty: the system's CAs
  std::string cert_file;
  std::string key_file;
  std::uint32_t lease_seconds = 10;
  // What the daemon keeps at most of an answer, and of an event of a watch.
  std::size_t answer_mib = 64;
  std::size_t event_mib = 16;
  bool compact = true;  // false: etcd (--auto-compaction-retention) or another user compacts it
};

std::unique_ptr<Store> make_sqlite_store(const SqliteConfig& config);
std::unique_ptr<Store> make_etcd_store(const EtcdConfig& config);

}  // namespace pvrdma::control
