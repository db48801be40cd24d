#include "shard/mailbox.h"

#include <cerrno>
#include <cstdint>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace pvrdma::shard {

Result<std::unique_ptr<Mailbox>> Mailbox::create(std::size_t capacity_tasks) {
  Fd wake_fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake_fd) return fail_errno(errno, "cannot make an eventfd for a shard's mailbox");
  return std::unique_ptr<Mailbox>(new Mailbox(capacity_tasks, std::move(wake_fd)));
}

Mailbox::Mailbox(std::size_t capacity_tasks, Fd wake_fd)
    : capacity_tasks_(capacity_tasks), wake_fd_(std::move(wake_fd)) {
  // So that a post never waits for memory while it holds the lock.
  tasks_.reserve(capacity_tasks + kKeptTasks);
  running_.reserve(capacity_tasks + kKeptTasks);
}

bool Mailbox::post(Task task, Room room) {
  const std::size_t most = capacity_tasks_ + (room == Room::kKept ? kKeptTasks : 0);
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || tasks_.size() >= most) return false;
    tasks_.push_back(std::move(task));
    if (tasks_.size() != 1) return true;  // the poster of the first task wakes the shard
  }
  wake();
  return true;
}

void Mailbox::wake() {
  const std::uint64_t one = 1;
  // This fails only if the counter is full, which also wakes the shard.
  [[maybe_unused]] const auto written = ::write(wake_fd_.get(), &one, sizeof(one));
}

void Mailbox::take_posted() {
  std::uint64_t wakes = 0;
  // Must happen before the tasks are taken: a post after that must leave the fd readable.
  [[maybe_unused]] const auto read = ::read(wake_fd_.get(), &wakes, sizeof(wakes));
  const std::lock_guard lock(mutex_);
  running_.swap(tasks_);
}

void Mailbox::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

}  // namespace pvrdma::shard
