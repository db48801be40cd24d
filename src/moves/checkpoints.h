// Checkpoints: those that are under way, each led on a thread of its own, with a stream to who asked for it.
// When that is gone before the checkpoint was finished, the VM goes on.
//
// Thread: any but the shard's. The streams end before this does.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/byte_stream.h"
#include "base/job_threads.h"
#include "base/result.h"
#include "base/time.h"
#include "control/adapter_control.h"
#include "motion/adapter_side.h"
#include "motion/checkpoint.h"

namespace pvrdma::moves {

class Checkpoints {
 public:
  static constexpr std::size_t kMax = 4;
  // For who asked to keep what it got.
  static constexpr Duration kPatience = std::chrono::minutes(10);

  // `side` is borrowed. `patience`: as kPatience.
  explicit Checkpoints(motion::AdapterSide& side, Duration patience = kPatience)
      : side_(side), patience_(patience) {}

  // As control::AdapterControl's. Errors: EBUSY, and where the system has no thread for it.
  Result<std::unique_ptr<ByteStream>> start(motion::CheckpointWish wish);
  Result<void> finish(const std::string& adapter);

 private:
  class Run;
  class Stream;

  motion::AdapterSide& side_;
  const Duration patience_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Run>> runs_;  // guarded; by adapter
  JobThreads jobs_{"checkpoint"};
};

}  // namespace pvrdma::moves
