// Worker: makes, connects and destroys for the shards what may sleep, on one thread (WorkerThread).
//
// Thread: any; jobs run on the worker's own.
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
  // Runs jobs in the order of posting. May throw bad_alloc.
  virtual void post(shard::Task job) = 0;
  // Destroys the object later. Allocates nothing.
  virtual void bury(std::unique_ptr<Buried> dead) = 0;
};

class WorkerThread final : public Worker {
 public:
  WorkerThread();
  ~WorkerThread() override;  // waits for the job in progress; drops the queued ones

  void post(shard::Task job) override;
  void bury(std::unique_ptr<Buried> dead) override;
  // Waits for the job in progress and drops the queued ones. Any thread but its own.
  void stop_jobs();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<shard::Task> jobs_;  // guarded, as the next members
  std::unique_ptr<Buried> dead_;  // a list
  bool takes_jobs_ = true;
  bool at_work_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace pvrdma::transport::hca
