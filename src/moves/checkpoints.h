// Checkpoints: VMs that are written to files, and VMs that are restored from them. A thread leads each
// checkpoint and streams its progress to the client. If a stream ends before its checkpoint was finished, the
// VM runs again.
//
// Thread: any but the shard's. The streams end before this does.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/byte_stream.h"
#include "base/job_threads.h"
#include "base/result.h"
#include "base/time.h"
#include "motion/adapter_side.h"
#include "motion/checkpoint_service.h"
#include "moves/check_stays.h"
#include "moves/find_monitor.h"

namespace pvrdma::moves {

class Checkpoints final : public motion::CheckpointService {
 public:
  static constexpr std::size_t kMax = 4;
  // The time limit for a client to confirm that it has stored the checkpoint.
  static constexpr Duration kPatience = std::chrono::minutes(10);

  // `side` is borrowed. `patience` replaces kPatience.
  Checkpoints(motion::AdapterSide& side, FindMonitor find_monitor, CheckStays check_stays,
              Duration patience = kPatience)
      : side_(side),
        find_monitor_(std::move(find_monitor)),
        check_stays_(std::move(check_stays)),
        patience_(patience) {}

  Result<std::unique_ptr<ByteStream>> start(const motion::CheckpointWish& wish) override;
  Result<void> finish(const std::string& adapter) override;
  Result<motion::RestoreReport> restore(const motion::CheckpointWish& wish, std::string_view state) override;
  std::string print_state(std::string_view state) override;

  // kConflict: a checkpoint of the adapter's VM is under way.
  Result<void> check_none(const std::string& adapter);

  // The daemon ends: a restore stops waiting for its QEMU, and no checkpoint starts.
  void interrupt() { jobs_.interrupt(); }

 private:
  class Run;
  class Stream;

  // The caller holds the mutex.
  Result<void> check_none_locked(const std::string& adapter) const;
  // Returns `wish` with the monitor filled in. kConflict: the VM is on its way.
  Result<motion::CheckpointWish> complete(const motion::CheckpointWish& wish);

  motion::AdapterSide& side_;
  const FindMonitor find_monitor_;
  const CheckStays check_stays_;
  const Duration patience_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Run>> runs_;  // guarded; by adapter
  JobThreads jobs_{"checkpoint"};
};

}  // namespace pvrdma::moves
