// Keeper: sees to it that the daemon's next process finds what it needs to go on with the adapters of this
// one: whatever ends this process, a stop or a crash. ADR 20.
//
// While the daemon runs, a thread writes down after each change what outlives a crash: descriptors and what
// they are, without the guests' objects. keep_all() at the end writes all of it down. In the descriptor store
// an adapter has a name for each descriptor (NAME/NUMBER) and one for the stream (NAME/record/NUMBER, the
// highest counts); @host/instance/TEXT says under which name this life of the host is known to the cluster.
//
// Thread: made, asked, started and destroyed by main(), keep_all() too; notice() any.
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
#include "adapters/kept_record.h"
#include "base/result.h"
#include "base/time.h"
#include "keep/descriptor_store.h"
#include "shard/loop.h"

namespace pvrdma::adapters {

class Keeper {
 public:
  // More is no adapter's.
  static constexpr std::size_t kStreamBytesMax = 1u << 30;

  // All borrowed; they outlive this. Takes what has come back out of the store.
  Keeper(keep::DescriptorStore& store, shard::Loop& loop, const Clock& clock);
  ~Keeper();  // ends the thread
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  Keeping& keeping() { return keeping_; }
  // By adapter; the first call has it. What is of no use, as it cannot be read or is no adapter's that
  // `may_be`, is kept no longer: its client has lost it, and its socket's path is free.
  std::map<std::string, GivenBack> given(const std::function<bool(const std::string&)>& may_be);
  // What this host's last life was called in the cluster; empty: it was none.
  const std::string& instance() const { return instance_; }
  // Before start().
  Result<void> keep_instance(const std::string& instance);

  // Borrowed. From now on theirs are kept.
  void start(const AdapterSet& adapters);
  // Adapters with a client that the next process would have.
  bool keeps_clients() const;
  // When the loop has ended, for good: with all objects; afterwards the sockets are the next process's.
  // Returns when they are kept.
  void keep_all();

 private:
  struct Collected {
    std::vector<KeptAdapter> changed;
    std::set<std::string> all;  // their names, and of those that are not taken back yet
  };

  void take(std::map<std::string, Fd> came);
  void notice();
  void run();
  Collected collect(device::Adapter::Objects objects) const;
  void store(const Collected& collected);
  Result<void> store(const KeptAdapter& kept);
  void remove(const std::string& name);
  void forget(const std::string& prefix, const std::set<std::string>& but);

  keep::DescriptorStore& store_;
  shard::Loop& loop_;
  const Clock& clock_;
  Keeping keeping_;
  std::map<std::string, GivenBack> given_;
  std::set<std::string> useless_;  // names in the store, of what came
  std::string instance_;
  std::uint64_t last_record_ = 0;
  const AdapterSet* adapters_ = nullptr;  // null: not started

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool noticed_ = false;  // guarded by mutex_, as what follows
  bool stopping_ = false;
  std::map<std::string, bool> has_client_;  // by adapter, of those that are kept
  std::thread thread_;
};

}  // namespace pvrdma::adapters
