// Reaper: releases what strangers handed over, on threads that nobody waits for.
//
// A close() may last as long as its other end likes (a TCP socket that lingers, a file of FUSE), and giving
// back the memory of a large VM takes seconds. A thread that must not wait hands such things to a
// ReaperQueue: a few atomic operations, no lock, no allocation. A queue that got something gets a thread of
// its own until it is empty again, so what one client left behind holds up nobody else's. Things (mappings)
// come before descriptors.
//
// A release that never returns keeps its thread and its queue, nothing else. At the end the Reaper waits a
// moment and then leaves such threads to the end of the process.
//
// Thread: a queue is filled by one thread at a time; waiting() any thread. Reaper: made and destroyed by
// main().
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

// Something whose destructor may take long. It runs on a thread of the reaper.
class Reapable {
 public:
  virtual ~Reapable() = default;

 private:
  friend class ReaperQueue;
  Reapable* next_ = nullptr;
};

class Reaper {
 public:
  // How long the destructor waits for what is under way.
  static constexpr Duration kPatience = std::chrono::seconds(2);

  // Errors: no thread or descriptor to be had (errno).
  static Result<std::unique_ptr<Reaper>> create();
  ~Reaper();
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  std::shared_ptr<ReaperQueue> open_queue();

  // The number of queues that are not empty. Each has a thread, or is about to get one.
  std::size_t busy_queues() const;

 private:
  friend class ReaperQueue;
  struct Shared;  // outlives the Reaper where a release does not return

  explicit Reaper(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  std::shared_ptr<Shared> shared_;
  std::thread starter_;  // starts the queues' threads
};

class ReaperQueue : public std::enable_shared_from_this<ReaperQueue> {
 public:
  // How many descriptors may wait. Beyond that they are closed in place; has_room() prevents it.
  static constexpr std::size_t kDescriptors = 2048;
  // What one receive from a UNIX socket may bring (the kernel's SCM_MAX_FD).
  static constexpr std::size_t kMostAtOnce = 253;

  explicit ReaperQueue(std::shared_ptr<Reaper::Shared> shared);
  ReaperQueue(const ReaperQueue&) = delete;
  ReaperQueue& operator=(const ReaperQueue&) = delete;

  void release(std::unique_ptr<Reapable> thing);
  void close(Fd fd);

  // The number of things not released yet, including the one being released.
  std::size_t waiting() const { return waiting_.load(std::memory_order_acquire); }

  // Whether the next kMostAtOnce may come. Also bounds the share of the process's descriptor numbers that
  // what cannot be closed may hold: an eighth of them.
  bool has_room() const { return waiting() <= room_; }

 private:
  friend class Reaper;

  void call_thread();
  void run();
  bool close_one();

  const std::shared_ptr<Reaper::Shared> shared_;
  const std::size_t room_;
  std::atomic<std::size_t> waiting_ = 0;  // counted before it is put in; 0 -> 1 calls the thread
  std::atomic<Reapable*> things_ = nullptr;
  std::array<int, kDescriptors> fds_{};  // a ring of one writer and one reader
  std::atomic<std::size_t> fds_in_ = 0;
  std::atomic<std::size_t> fds_out_ = 0;

  // While a thread is called for.
  ReaperQueue* next_due_ = nullptr;
  std::shared_ptr<ReaperQueue> self_;
};

}  // namespace pvrdma
