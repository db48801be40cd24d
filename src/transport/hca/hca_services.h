// HcaServices: what an Hca provides to its parts: running work that may sleep on another thread, and the
// guest memory that its device knows.
//
// Thread: shard-owned.
#pragma once

#include <functional>
#include <memory>

namespace pvrdma::verbs {
class Engine;
}

namespace pvrdma::transport::hca {

class GuestMemory;

// An object whose destructor may sleep. The worker's thread destroys it (worker.h).
class Buried {
 public:
  virtual ~Buried() = default;

  std::unique_ptr<Buried> next;  // the worker's list
};

class HcaServices {
 public:
  virtual ~HcaServices() = default;

  // Runs `job` on a thread that may block, in the order of calls, and then `then` on the shard, unless the
  // Hca is gone by then. `then` takes the results from state that it shares with `job`. The two functions,
  // and so the results that are not taken, are destroyed on that thread. May throw bad_alloc; they are then
  // destroyed here.
  virtual void work(std::function<void()> job, std::function<void()> then) = 0;
  // Destroys the object on that thread, later. Allocates nothing.
  virtual void bury(std::unique_ptr<Buried> dead) = 0;
  // The memory of the engine's VM, to be registered with the device. Null: no device is open. May throw
  // bad_alloc.
  virtual std::shared_ptr<GuestMemory> memory_of(const verbs::Engine& engine) = 0;
  // The device misbehaves: closes it and opens it again.
  virtual void give_up_device() = 0;
};

}  // namespace pvrdma::transport::hca
