// JobThreads: threads that each do one job and then end.
//
// A job is a callable that takes a std::stop_token. It ends by itself, or soon after its token asks it to.
// Its thread is joined when a later job starts, or by stop().
//
// Thread: any control thread (base/control_thread.h). No job calls stop().
#pragma once

#include <atomic>
#include <cerrno>
#include <list>
#include <mutex>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/control_thread.h"
#include "base/result.h"

namespace pvrdma {

class JobThreads {
 public:
  // `thread_name` has at most 15 bytes.
  explicit JobThreads(const char* thread_name) : thread_name_(thread_name) {}
  ~JobThreads() { stop(); }
  JobThreads(const JobThreads&) = delete;
  JobThreads& operator=(const JobThreads&) = delete;

  // Errors, one clause each: ECANCELED: the jobs were interrupted; kUnavailable: the system has no thread.
  template <typename Job>
  Result<void> start(Job job) {
    const std::lock_guard lock(mutex_);
    join_ended();
    if (stop_.stop_requested()) return fail(ECANCELED, "this daemon stops");
    Running& running = running_.emplace_back();
    try {
      running.thread = std::thread([this, &running, job = std::move(job)]() mutable {
        begin_control_thread(thread_name_);
        std::move(job)(stop_.get_token());
        running.has_ended = true;
      });
    } catch (const std::system_error& refused) {
      running_.pop_back();
      return fail(ErrorKind::kUnavailable, std::string("the system has no thread: ") + refused.what());
    }
    return {};
  }

  bool is_stopping() const { return stop_.stop_requested(); }
  // Asks all jobs to end. No new job starts.
  void interrupt() { stop_.request_stop(); }
  // Like interrupt(), and waits until all jobs have ended.
  void stop() {
    interrupt();
    std::list<Running> last;
    {
      const std::lock_guard lock(mutex_);
      last.swap(running_);
    }
    for (Running& running : last) running.thread.join();
  }

 private:
  struct Running {
    std::thread thread;
    std::atomic<bool> has_ended = false;
  };

  void join_ended() {
    std::erase_if(running_, [](Running& running) {
      if (!running.has_ended) return false;
      running.thread.join();
      return true;
    });
  }

  const char* const thread_name_;
  std::stop_source stop_;
  std::mutex mutex_;
  std::list<Running> running_;  // guarded by mutex_
};

}  // namespace pvrdma
