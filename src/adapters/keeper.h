// Keeper: makes sure that the daemon's next process finds what it needs to continue with the adapters of this
// one, whether this process stops or crashes. ADR 20.
//
// While the daemon runs, a thread stores after each change what the next process needs after a crash: the
// descriptors, and a stream that says what each of them is. That stream is without the guests' objects; at
// the end, keep_all() stores one with all objects. In the descriptor store, an adapter has one name for each
// descriptor (NAME/NUMBER) and one for the stream (NAME/record/NUMBER; the highest number counts).
// @host/instance/TEXT holds the name under which the cluster knows this life of the host.
//
// Thread: made, asked, started and destroyed by main(), which also calls keep_all(); notice() any.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "adapters/adapter_set.h"
#include "adapters/keeping.h"
#include "adapters/kept_record.h"
#include "adapters/shards.h"
#include "base/log.h"
#include "base/result.h"
#include "base/time.h"
#include "keep/descriptor_store.h"

namespace pvrdma::adapters {

class Keeper {
 public:
  // A longer stream is not an adapter's.
  static constexpr std::size_t kStreamBytesMax = 1u << 30;

  // All are borrowed and outlive this. Takes what the store has kept.
  Keeper(keep::DescriptorStore& store, const Clock& clock);
  ~Keeper();  // ends the thread
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  Keeping& keeping() { return keeping_; }
  // Gives the kept records to keeping(), and returns the names of their adapters. `may_be`: whether this
  // process may have an adapter of that name. All descriptors of other adapters, and of records that cannot
  // be read, are removed from the store. The clients of those adapters have lost them, and their sockets'
  // paths become free. Called once, before the adapters are made.
  std::set<std::string> give_back(const std::function<bool(const std::string&)>& may_be);
  // The name of this host's last life in the cluster; empty: there was no such life.
  const std::string& instance() const { return instance_; }
  // Called before start().
  Result<void> keep_instance(const std::string& instance);

  // Begins to keep the adapters of these shards. Borrowed.
  void start(const Shards& shards);
  // Whether an adapter has a client that the next process would take over.
  bool keeps_clients() const;
  // Called when the loops of all shards have ended for good. Keeps the adapters with all objects; afterwards
  // the sockets belong to the next process. Returns when everything is kept.
  void keep_all();

 private:
  // What one shard has to keep.
  struct Collected {
    std::vector<KeptAdapter> changed;
    std::set<std::string> all;  // the names of its adapters
  };

  void take(std::map<std::string, Fd> came);
  void notice();
  void run();
  Collected collect(const AdapterSet& adapters, device::Adapter::Objects objects) const;
  bool collect_and_store();
  // The adapters in the store whose records nobody has taken back yet.
  std::set<std::string> not_taken_back() const;
  void store(const std::vector<KeptAdapter>& changed);
  void warn_of(const std::string& adapter, const std::string& trouble);
  void forget_all_but(const std::set<std::string>& adapters);
  Result<void> store(const KeptAdapter& kept);
  void remove(const std::string& name);
  void forget(const std::string& prefix, const std::set<std::string>& but);

  keep::DescriptorStore& store_;
  const Clock& clock_;
  Keeping keeping_;
  std::map<std::string, GivenBack> given_;
  std::set<std::string> useless_;  // names in the store that were found useless
  std::string instance_;
  std::uint64_t last_record_ = 0;
  std::map<std::string, log::LogLimiter> told_;  // by adapter that is not kept
  const Shards* shards_ = nullptr;               // null: not started

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool noticed_ = false;  // guarded by mutex_, as are stopping_ and has_client_
  bool stopping_ = false;
  std::map<std::string, bool> has_client_;  // by adapter; those that are kept
  std::thread thread_;
};

}  // namespace pvrdma::adapters
