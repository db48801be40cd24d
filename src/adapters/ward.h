// Ward: moves adapters that delay others into the ward, the shard where no others are.
//
// A VMM can let the thread sleep that touches the memory of its VM, and with it all adapters of that shard
// (docs/threat_model.md). Whoever watches the shards' turns says so (on_offence()); Offences decides who
// goes. A thread of its own moves the adapter, as an operator would (shard_placement.h). It stays in the ward
// until an operator takes it out or the daemon ends.
//
// Thread: made, started, stopped and destroyed by main(); on_offence() any.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "adapters/offence.h"
#include "adapters/offences.h"
#include "adapters/shard_placement.h"
#include "base/log.h"
#include "base/time.h"

namespace pvrdma::adapters {

class Ward final : public OffenceObserver {
 public:
  static constexpr std::size_t kNewsMax = 256;  // while the thread moves an adapter; later ones are dropped

  // `clock` is borrowed.
  explicit Ward(const Clock& clock, Duration first_pause = Offences::kFirstPause)
      : clock_(clock), offences_(first_pause) {}
  ~Ward() override { stop(); }
  Ward(const Ward&) = delete;
  Ward& operator=(const Ward&) = delete;

  // `placement` is borrowed until stop(). The host has a ward.
  void start(ShardPlacement& placement);
  // Waits until a move that is under way is over.
  void stop();

  // Not called by the ward's own shard, where nobody else is delayed.
  void on_offence(const std::string& adapter, Duration took) override;

 private:
  struct News {
    Offence offence;
    Instant at;
  };
  void run(const std::stop_token& stop, ShardPlacement& placement);
  void take_in_all(ShardPlacement& placement);
  // Returns false if it is to be tried again.
  bool take_in(const Offence& offender, ShardPlacement& placement);

  static constexpr std::uint32_t kRefusedBurst = 4;
  static constexpr Duration kRefusedInterval = std::chrono::minutes(1);

  const Clock& clock_;
  std::mutex mutex_;  // the thread allocates nothing under it, because shards wait for it
  std::condition_variable_any wake_;
  std::vector<News> news_;  // guarded by mutex_
  Offences offences_;       // used by the thread
  log::LogLimiter refused_log_{kRefusedBurst, kRefusedInterval};
  std::jthread thread_;
};

}  // namespace pvrdma::adapters
