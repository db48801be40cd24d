// Workshop: who does for the shard what may sleep, and gives the result back to it. Thread: shard-owned.
#pragma once

#include <functional>
#include <memory>

#include "transport/hca/buried.h"

namespace pvrdma::transport::hca {

class Workshop {
 public:
  virtual ~Workshop() = default;
  // `job` runs on a thread that may block, in the order of calls, and `then` on the shard when it has ended,
  // if anybody is still there. They share what the job has made. May throw bad_alloc.
  virtual void work(std::function<void()> job, std::function<void()> then) = 0;
  // Destroys it there, some time. Allocates nothing.
  virtual void bury(std::unique_ptr<Buried> dead) = 0;
};

}  // namespace pvrdma::transport::hca
