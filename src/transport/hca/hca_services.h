// HcaServices: what an Hca does for its parts: work that may sleep, on another thread, and the memory of
// guests that its device knows.
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

// An object whose destruction may sleep: it is handed to the worker's thread for that (worker.h).
class Buried {
 public:
  virtual ~Buried() = default;

  std::unique_ptr<Buried> next;  // the worker's list
};

class HcaServices {
 public:
  virtual ~HcaServices() = default;

  // Runs `job` on a thread that may block, in the order of calls, and then `then` on the shard, unless the
  // Hca is gone. The two share what the job has made. May throw bad_alloc.
  virtual void work(std::function<void()> job, std::function<void()> then) = 0;
  // Destroys it on that thread, later. Allocates nothing.
  virtual void bury(std::unique_ptr<Buried> dead) = 0;
  // The engine's memory, which the device knows or will know; null: no device is open. May throw bad_alloc.
  virtual std::shared_ptr<GuestMemory> memory_of(const verbs::Engine& engine) = 0;
  // The device does not do what it must: it is opened anew.
  virtual void give_up_device() = 0;
};

}  // namespace pvrdma::transport::hca
