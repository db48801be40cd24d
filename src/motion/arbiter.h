// Arbiter: who says, once and for all, on which of two hosts a VM is: the cluster's store.
//
// Calls block for a bounded time. EAGAIN: it is not known whether it was done; asked again, it says. Every
// call may be repeated. Thread: any.
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

  // Errors: a rule forbids it, with its sentence.
  virtual Result<void> begin(const Motion& motion) = 0;
  // From now on the VM is at `to`. ECANCELED: it stays, the motion was ended.
  virtual Result<void> commit(const Motion& motion) = 0;
  // It stays. EALREADY: it is at `to`.
  virtual Result<void> end(const Motion& motion) = 0;

  enum class Verdict : std::uint8_t { kOpen, kThere, kStays };
  // As far as is known here.
  virtual Result<Verdict> look(const Motion& motion) = 0;
  // The daemon of `from` lives no more, as far as is known here.
  virtual Result<bool> source_is_gone(const Motion& motion) = 0;

  // Between two questions that it could not answer.
  static constexpr Duration kPause = std::chrono::milliseconds(200);
};

}  // namespace pvrdma::motion
