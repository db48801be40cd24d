// Mailbox: how other threads talk to a shard: they post tasks, the shard runs them between two turns of its
// loop.
//
// Bounded: a full mailbox refuses, and the poster tells whoever asked. A lock protects it, but the shard
// takes the lock only after a wake-up: nothing on the data path does. Tasks of one thread run in the order
// they were posted.
//
// Thread: post() and wake() any thread; the rest the shard's. Must outlive every thread that posts.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "shard/task.h"

namespace pvrdma::shard {

class Mailbox {
 public:
  // Error: no eventfd to be had (errno).
  static Result<std::unique_ptr<Mailbox>> create(std::size_t capacity_tasks);

  // False: full or closed, and the task is destroyed unrun.
  [[nodiscard]] bool post(Task task);

  // Makes wake_fd() readable, tasks or not. Any thread.
  void wake();

  // Readable while there may be tasks.
  int wake_fd() const { return wake_fd_.get(); }

  // Runs what has been posted up to now; tells how many tasks that were. A task may post: that one runs next
  // time.
  // `ran(task)` is called after each.
  template <typename Ran>
  std::size_t run_posted(Ran ran) {
    take_posted();
    for (Task& task : running_) {
      task();
      ran(task);
    }
    const std::size_t count = running_.size();
    running_.clear();
    return count;
  }
  std::size_t run_posted() {
    return run_posted([](const Task&) {});
  }

  // No task is accepted any more; those accepted earlier can still be run.
  void close();

 private:
  Mailbox(std::size_t capacity_tasks, Fd wake_fd);
  void take_posted();

  const std::size_t capacity_tasks_;
  const Fd wake_fd_;
  std::mutex mutex_;
  std::vector<Task> tasks_;    // guarded by mutex_
  bool closed_ = false;        // guarded by mutex_
  std::vector<Task> running_;  // the shard's
};

}  // namespace pvrdma::shard
