// Arbiter: decides, finally, on which of two hosts a VM is. The implementation is the cluster's store.
//
// Calls block for a bounded time. kUnavailable: it is unknown whether the change was made; call again to find
// out. Every call may be repeated. Thread: any.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "motion/motion_service.h"

namespace pvrdma::motion {

class Arbiter {
 public:
  virtual ~Arbiter() = default;

  // Records that the motion starts. Errors: a rule forbids it; the text says which.
  virtual Result<void> begin(const Motion& motion) = 0;
  // From now on the VM is at `to`. ECANCELED: it stays at `from`, because the motion was ended.
  virtual Result<void> commit(const Motion& motion) = 0;
  // The VM stays at `from`. EALREADY: it is at `to`.
  virtual Result<void> end(const Motion& motion) = 0;

  enum class Verdict : std::uint8_t { kOpen, kThere, kStays };
  // The decision, as far as this host knows.
  virtual Result<Verdict> look(const Motion& motion) = 0;
  // True if the daemon of `from` has died, as far as this host knows.
  virtual Result<bool> source_is_gone(const Motion& motion) = 0;

  // The pause between two questions that it could not answer.
  static constexpr Duration kPause = std::chrono::milliseconds(200);
};

}  // namespace pvrdma::motion
