// ObserverQueue: calls an Observer one at a time and in the order of post(), whichever threads deliver.
//
// A store posts while it holds whatever lock orders its changes, and delivers after it has let go of it: so
// the observer may call the store's commit() and read_all(). What it must not do is wait for another thread
// that is inside commit() (that thread may be waiting for this delivery), or stop the store. Thread: any
// thread.
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
  using Call = std::function<void(Observer&)>;

  // `observer` is borrowed until close(). What was posted before is delivered to it, too.
  void open(Observer& observer);

  // Waits for the call under way. Afterwards nothing is called; what is still queued is dropped.
  void close();

  void post(Call call);

  // Returns when everything posted so far has been delivered, by this thread or another one. From inside an
  // observer's function it returns at once: the delivery under way goes on with what was posted. An observer
  // that throws ends the process: it would have missed a change, and all others would wait for it.
  void deliver() noexcept;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Observer* observer_ = nullptr;  // borrowed; null: closed
  std::deque<Call> queue_;
  std::uint64_t posted_ = 0;
  std::uint64_t delivered_ = 0;
  std::uint64_t promised_ = 0;  // the delivery under way goes on at least up to here
  std::thread::id deliverer_;   // of the call under way; default: none
};

}  // namespace pvrdma::control
