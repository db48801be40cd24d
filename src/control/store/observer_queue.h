// ObserverQueue: calls an StoreObserver, one call at a time and in the order of post(), from whichever
// threads deliver.
//
// A store calls post() while it holds the lock that orders its changes, and deliver() after it has released
// the lock. So the observer may call the store's commit() and read_all(). The observer must not stop the
// store. It must not wait for another thread inside commit() either, because that thread may be waiting for
// this delivery. Thread: any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "control/store/store.h"

namespace pvrdma::control {

class ObserverQueue {
 public:
  using Call = std::function<void(StoreObserver&)>;

  // `observer` is borrowed until close(). It also gets the calls that were posted before.
  void open(StoreObserver& observer);

  // Waits for the current call. Afterwards no call is made, and queued calls are dropped.
  void close();

  void post(Call call);

  // Returns when everything posted so far has been delivered, by this thread or another one. When an
  // observer's function calls it, it returns at once, and the current delivery continues with the new calls.
  // If an observer throws, the process ends: the observer would have missed a change, and all others would
  // wait for it.
  void deliver() noexcept;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  StoreObserver* observer_ = nullptr;  // borrowed; null: closed
  std::deque<Call> queue_;
  std::uint64_t posted_ = 0;
  std::uint64_t delivered_ = 0;
  std::uint64_t promised_ = 0;  // the current delivery goes on at least up to here
  std::thread::id deliverer_;   // of the current call; default: no call
};

}  // namespace pvrdma::control
