// Reaper: releases memory and descriptors that clients handed over, on threads of its own.
//
// The other end of a descriptor decides how long close() takes (a TCP socket that lingers, a file of FUSE),
// and unmapping the memory of a large VM takes seconds. A thread that must not wait gives such objects to a
// ReaperQueue. That costs a few atomic operations, and a write to an eventfd if the queue was empty; there is
// no lock and no allocation. A queue that is not empty has a thread of its own, so one client's objects never
// delay another's. Mappings are released before descriptors.
//
// A release that never returns blocks only its own thread and queue. The destructor waits for kPatience;
// threads that still run then end with the process.
//
// Thread: one thread at a time fills a queue; waiting() any. main() makes and destroys the Reaper.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"

namespace pvrdma {

class ReaperQueue;

// An object whose destructor may take long. It runs on a thread of the reaper.
class Reapable {
 public:
  virtual ~Reapable() = default;

 private:
  friend class ReaperQueue;
  Reapable* next_ = nullptr;
};

class Reaper {
 public:
  // How long the destructor waits for releases in progress.
  static constexpr Duration kPatience = std::chrono::seconds(2);

  // Errors: the system has no thread or descriptor (errno).
  static Result<std::unique_ptr<Reaper>> create();
  ~Reaper();
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  std::shared_ptr<ReaperQueue> open_queue();

  // The number of queues that are not empty. Each has a thread, or is about to get one.
  std::size_t busy_queues() const;

 private:
  friend class ReaperQueue;
  struct Shared;  // outlives the Reaper if a release does not return

  explicit Reaper(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  std::shared_ptr<Shared> shared_;
  std::thread starter_;  // starts the queues' threads
};

class ReaperQueue : public std::enable_shared_from_this<ReaperQueue> {
 public:
  // The most descriptors that may wait. Further ones are closed in place; callers that check has_room()
  // prevent that.
  static constexpr std::size_t kDescriptors = 2048;
  // The most descriptors that one receive from a UNIX socket brings (the kernel's SCM_MAX_FD).
  static constexpr std::size_t kMostAtOnce = 253;

  explicit ReaperQueue(std::shared_ptr<Reaper::Shared> shared);
  ReaperQueue(const ReaperQueue&) = delete;
  ReaperQueue& operator=(const ReaperQueue&) = delete;

  void release(std::unique_ptr<Reapable> thing);
  void close(Fd fd);

  // The number of objects and descriptors not released yet, including the one being released.
  std::size_t waiting() const { return waiting_.load(std::memory_order_acquire); }

  // Whether there is room for kMostAtOnce more. It also bounds the descriptors that cannot be closed, to an
  // eighth of the process's limit.
  bool has_room() const { return waiting() <= room_; }

 private:
  friend class Reaper;

  void call_thread();
  void run();
  bool close_one();

  const std::shared_ptr<Reaper::Shared> shared_;
  const std::size_t room_;
  std::atomic<std::size_t> waiting_ = 0;  // raised before an object is put in; 0 -> 1 calls the thread
  std::atomic<Reapable*> things_ = nullptr;
  std::array<int, kDescriptors> fds_{};  // a ring of one writer and one reader
  std::atomic<std::size_t> fds_in_ = 0;
  std::atomic<std::size_t> fds_out_ = 0;

  // Used while the queue waits for a thread.
  ReaperQueue* next_due_ = nullptr;
  std::shared_ptr<ReaperQueue> self_;
};

}  // namespace pvrdma
