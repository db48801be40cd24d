// Mailbox: other threads post tasks for a shard, and the shard runs them between two turns of its loop.
//
// It is bounded: a full mailbox refuses a task, and the poster reports that to its caller. For tasks that
// must not be refused it has some more room. A lock protects it. The shard takes the lock only after a
// wake-up, and nothing on the data path takes it. Tasks of one thread run in the order in which they were
// posted.
//
// Thread: post() and wake() any thread; the rest the shard's. Must outlive every thread that posts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "shard/task.h"

namespace pvrdma::shard {

enum class Room : std::uint8_t { kShared, kKept };  // kKept: also that for tasks which must not be refused

class Mailbox {
 public:
  static constexpr std::size_t kKeptTasks = 16;

  // Error: no eventfd is available (errno).
  static Result<std::unique_ptr<Mailbox>> create(std::size_t capacity_tasks);

  // False: the mailbox is full or closed, and the task is destroyed without running.
  [[nodiscard]] bool post(Task task, Room room = Room::kShared);

  // Makes wake_fd() readable, even without tasks. Any thread.
  void wake();

  // Readable while there may be tasks.
  int wake_fd() const { return wake_fd_.get(); }

  // Runs the tasks posted up to now and returns their number. A task may post another one, which runs the
  // next time. `ran(task)` is called after each task.
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

  // Accepts no more tasks. The accepted ones can still be run.
  void close();

 private:
  Mailbox(std::size_t capacity_tasks, Fd wake_fd);
  void take_posted();

  const std::size_t capacity_tasks_;
  const Fd wake_fd_;
  std::mutex mutex_;
  std::vector<Task> tasks_;    // guarded by mutex_
  bool closed_ = false;        // guarded by mutex_
  std::vector<Task> running_;  // only the shard uses it
};

}  // namespace pvrdma::shard
