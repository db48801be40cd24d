#include "base/reaper.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <system_error>
#include <utility>

#include "base/descriptor_limit.h"
#include "base/log.h"

namespace pvrdma {
namespace {

constexpr int kRetryMs = 100;  // between attempts while the system has no thread
constexpr std::size_t kFewestWaiting = 8;
constexpr std::size_t kMostWaiting = ReaperQueue::kDescriptors - ReaperQueue::kMostAtOnce - 16;

std::size_t room_for_waiting() {
  return std::clamp(descriptor_limit() / 8, kFewestWaiting, kMostWaiting);
}

}  // namespace

struct Reaper::Shared {
  explicit Shared(Fd event) : wake(std::move(event)) {}

  // Never blocks: only this process has the eventfd, and each wake-up resets its counter.
  void wake_starter() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake.get(), &one, sizeof(one));
  }
  void start_threads();
  static bool start_thread(const std::shared_ptr<ReaperQueue>& queue);

  const Fd wake;
  std::atomic<ReaperQueue*> due = nullptr;  // queues that need a thread
  std::atomic<std::size_t> busy = 0;
  std::atomic<bool> stopped = false;
};

Result<std::unique_ptr<Reaper>> Reaper::create() {
  Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return fail_errno(errno, "cannot make the reaper's eventfd");
  std::unique_ptr<Reaper> reaper(new Reaper(std::make_shared<Shared>(std::move(wake))));
  try {
    reaper->starter_ = std::thread([shared = reaper->shared_] { shared->start_threads(); });
  } catch (const std::system_error& error) {
    return fail_errno(error.code().value(), "cannot start the reaper's thread");
  }
  ::pthread_setname_np(reaper->starter_.native_handle(), "reaper");
  return reaper;
}

Reaper::~Reaper() {
  const Instant deadline = Instant::now() + kPatience;
  while (busy_queues() != 0 && Instant::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (const std::size_t left = busy_queues(); left != 0) {
    log::warn(
        "reaper: the memory and descriptors of {} client(s) are not released yet; the kernel will release "
        "them",
        left);
  }
  shared_->stopped.store(true, std::memory_order_release);
  shared_->wake_starter();
  if (starter_.joinable()) starter_.join();
}

std::shared_ptr<ReaperQueue> Reaper::open_queue() {
  return std::make_shared<ReaperQueue>(shared_);
}

std::size_t Reaper::busy_queues() const {
  return shared_->busy.load(std::memory_order_acquire);
}

void Reaper::Shared::start_threads() {
  ReaperQueue* unserved = nullptr;  // queues for which the system had no thread
  while (true) {
    pollfd event{wake.get(), POLLIN, 0};
    ::poll(&event, 1, unserved != nullptr ? kRetryMs : -1);
    std::uint64_t unused = 0;
    [[maybe_unused]] const ssize_t got = ::read(wake.get(), &unused, sizeof(unused));
    ReaperQueue* waiting = std::exchange(unserved, nullptr);
    for (int list = 0; list < 2; ++list) {
      while (waiting != nullptr) {
        ReaperQueue* const queue = waiting;
        waiting = queue->next_due_;
        if (start_thread(queue->self_)) continue;
        queue->next_due_ = unserved;
        unserved = queue;
      }
      if (list == 0) waiting = due.exchange(nullptr, std::memory_order_acquire);
    }
    if (stopped.load(std::memory_order_acquire)) return;
  }
}

bool Reaper::Shared::start_thread(const std::shared_ptr<ReaperQueue>& queue) {
  try {
    std::thread([queue = queue] { queue->run(); }).detach();
    return true;
  } catch (const std::exception&) {  // no thread, or no memory for one: the caller retries
    return false;
  }
}

ReaperQueue::ReaperQueue(std::shared_ptr<Reaper::Shared> shared)
    : shared_(std::move(shared)), room_(room_for_waiting()) {}

void ReaperQueue::release(std::unique_ptr<Reapable> thing) {
  if (shared_->stopped.load(std::memory_order_acquire)) return;  // released in place
  const bool first = waiting_.fetch_add(1, std::memory_order_acq_rel) == 0;
  Reapable* const raw = thing.release();
  raw->next_ = things_.load(std::memory_order_relaxed);
  while (!things_.compare_exchange_weak(raw->next_, raw, std::memory_order_release)) {
  }
  if (first) call_thread();
}

void ReaperQueue::close(Fd fd) {
  if (!fd || shared_->stopped.load(std::memory_order_acquire)) return;
  const std::size_t in = fds_in_.load(std::memory_order_relaxed);
  if (in - fds_out_.load(std::memory_order_acquire) == kDescriptors) return;
  const bool first = waiting_.fetch_add(1, std::memory_order_acq_rel) == 0;
  fds_[in % kDescriptors] = fd.release();
  fds_in_.store(in + 1, std::memory_order_release);
  if (first) call_thread();
}

void ReaperQueue::call_thread() {
  shared_->busy.fetch_add(1, std::memory_order_acq_rel);
  self_ = shared_from_this();
  next_due_ = shared_->due.load(std::memory_order_relaxed);
  while (!shared_->due.compare_exchange_weak(next_due_, this, std::memory_order_release)) {
  }
  shared_->wake_starter();
}

// The queue's thread. It ends when waiting_ falls to 0; from then on the queue may call for the next thread.
void ReaperQueue::run() {
  ::pthread_setname_np(::pthread_self(), "reaper-client");
  const std::shared_ptr<ReaperQueue> keep = std::move(self_);
  const std::shared_ptr<Reaper::Shared> shared = shared_;
  const auto one_less = [this] { return waiting_.fetch_sub(1, std::memory_order_acq_rel) == 1; };
  bool empty = false;
  while (!empty) {
    Reapable* thing = things_.exchange(nullptr, std::memory_order_acquire);
    if (thing == nullptr && !close_one()) {
      std::this_thread::yield();  // counted already, and about to be put in
      continue;
    }
    if (thing == nullptr) empty = one_less();
    while (thing != nullptr) {
      delete std::exchange(thing, thing->next_);
      empty = one_less();
    }
  }
  shared->busy.fetch_sub(1, std::memory_order_acq_rel);
}

bool ReaperQueue::close_one() {
  const std::size_t out = fds_out_.load(std::memory_order_relaxed);
  if (out == fds_in_.load(std::memory_order_acquire)) return false;
  const int fd = fds_[out % kDescriptors];
  fds_out_.store(out + 1, std::memory_order_release);
  ::close(fd);
  return true;
}

}  // namespace pvrdma
