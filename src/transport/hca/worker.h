// Worker: who makes, connects and destroys what may sleep, for the shard: one thread (WorkerThread).
//
// Thread: shard; jobs run on the worker's own.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "shard/task.h"
#include "transport/hca/hca_services.h"

namespace pvrdma::transport::hca {

class Worker {
 public:
  virtual ~Worker() = default;
  // In the order of posting. May throw bad_alloc.
  virtual void post(shard::Task job) = 0;
  // Destroys it, some time. Allocates nothing.
  virtual void bury(std::unique_ptr<Buried> dead) = 0;
};

class WorkerThread final : public Worker {
 public:
  WorkerThread();
  ~WorkerThread() override;  // after the job under way; what waits is dropped

  void post(shard::Task job) override;
  void bury(std::unique_ptr<Buried> dead) override;
  // Waits for the job under way; those that wait are not run any more. Any thread but its own.
  void stop_jobs();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<shard::Task> jobs_;  // guarded, as what follows
  std::unique_ptr<Buried> dead_;  // a list
  bool takes_jobs_ = true;
  bool at_work_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace pvrdma::transport::hca
