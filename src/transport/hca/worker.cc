#include "transport/hca/worker.h"

#include <utility>

#include "base/control_thread.h"

namespace pvrdma::transport::hca {

WorkerThread::WorkerThread() : thread_([this] { run(); }) {}

WorkerThread::~WorkerThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    takes_jobs_ = false;
  }
  changed_.notify_one();
  thread_.join();
}

void WorkerThread::post(shard::Task job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void WorkerThread::bury(std::unique_ptr<Buried> dead) {
  {
    const std::lock_guard lock(mutex_);
    dead->next = std::move(dead_);
    dead_ = std::move(dead);
  }
  changed_.notify_one();
}

void WorkerThread::stop_jobs() {
  std::unique_lock lock(mutex_);
  takes_jobs_ = false;
  changed_.wait(lock, [this] { return !at_work_; });
}

void WorkerThread::run() {
  begin_control_thread("hca");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || dead_ != nullptr || !jobs_.empty(); });
    std::unique_ptr<Buried> dead = std::move(dead_);
    shard::Task job;
    if (!jobs_.empty()) {
      job = std::move(jobs_.front());
      jobs_.pop_front();
      at_work_ = takes_jobs_;
    }
    const bool ends = stop_ && dead == nullptr && !job;
    lock.unlock();
    while (dead != nullptr) dead = std::move(dead->next);
    if (ends) return;
    if (job && at_work_) job();
    job = {};
    lock.lock();
    at_work_ = false;
    if (!takes_jobs_) changed_.notify_all();
  }
}

}  // namespace pvrdma::transport::hca
