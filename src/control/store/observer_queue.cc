#include "control/store/observer_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pvrdma::control {

void ObserverQueue::open(StoreObserver& observer) {
  const std::scoped_lock lock(mutex_);
  observer_ = &observer;
}

void ObserverQueue::close() {
  std::unique_lock lock(mutex_);
  PVRDMA_CHECK(deliverer_ != std::this_thread::get_id(), "an observer does not stop its store");
  observer_ = nullptr;
  changed_.wait(lock, [&] { return deliverer_ == std::thread::id(); });
}

void ObserverQueue::post(Call call) {
  const std::scoped_lock lock(mutex_);
  queue_.push_back(std::move(call));
  ++posted_;
}

void ObserverQueue::deliver() noexcept {
  std::unique_lock lock(mutex_);
  if (deliverer_ == std::this_thread::get_id()) {
    promised_ = posted_;
    return;
  }
  const std::uint64_t ticket = posted_;
  while (delivered_ < std::max(ticket, promised_)) {
    if (deliverer_ != std::thread::id()) {
      changed_.wait(lock);
      continue;
    }
    const Call call = std::move(queue_.front());
    queue_.pop_front();
    if (observer_ != nullptr) {
      StoreObserver& observer = *observer_;
      deliverer_ = std::this_thread::get_id();
      lock.unlock();
      call(observer);
      lock.lock();
      deliverer_ = std::thread::id();
    }
    ++delivered_;
    changed_.notify_all();
  }
}

}  // namespace pvrdma::control
