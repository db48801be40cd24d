// Keeping: what the adapters of a process share in order to be kept, on whichever shards they are: the
// numbers of descriptors, and what the previous process kept of adapters that are not taken back yet. ADR 20.
//
// Thread: any, unless a function says otherwise.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "adapters/kept_record.h"

namespace pvrdma::adapters {

class Keeping {
 public:
  // `noticed` is called on a shard after a change of anything that is kept. It must not block.
  explicit Keeping(std::function<void()> noticed) : noticed_(std::move(noticed)) {}

  KeptId next_id() { return last_id_.fetch_add(1, std::memory_order_relaxed) + 1; }
  // Called before the first next_id(), by one thread.
  void skip_ids_to(KeptId last) {
    if (last > last_id_.load(std::memory_order_relaxed)) last_id_.store(last, std::memory_order_relaxed);
  }
  void notice() { noticed_(); }

  // The records that were kept of adapters, by name. Called before the adapters are made.
  void give_back(std::map<std::string, GivenBack> given);
  // What was kept of an adapter that is not taken back yet; null: nothing. Allocates nothing, as the next.
  std::shared_ptr<const GivenBack> given(const std::string& name) const;
  // The adapter of that name exists, so its record is no longer needed.
  void taken_back(const std::string& name);
  // Drops the records of all other adapters, with the files of their sockets: their clients lose them.
  void drop_all_but(const std::set<std::string>& wanted);

 private:
  using Records = std::map<std::string, std::shared_ptr<const GivenBack>>;

  const std::function<void()> noticed_;
  std::atomic<KeptId> last_id_ = 0;
  mutable std::mutex mutex_;
  Records given_;  // by adapter
};

}  // namespace pvrdma::adapters
