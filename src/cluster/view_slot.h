// ViewSlot: the newest view on its way to the shard. One that the shard has not taken yet is replaced.
//
// Thread: put() and retry() one; destroyed after the loop has ended.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "cluster/host_view.h"
#include "shard/loop.h"

namespace pvrdma::cluster {

class ViewSlot {
 public:
  using Apply = std::function<void(const HostView& view)>;

  // `loop` is borrowed. `apply` runs on its thread, as a task.
  ViewSlot(shard::Loop& loop, Apply apply) : loop_(loop), apply_(std::move(apply)) {}
  ~ViewSlot();
  ViewSlot(const ViewSlot&) = delete;
  ViewSlot& operator=(const ViewSlot&) = delete;

  void put(HostView view);
  // Posts again what the loop's mailbox had no room for.
  void retry();

 private:
  void take();

  shard::Loop& loop_;
  const Apply apply_;
  std::atomic<const HostView*> waiting_ = nullptr;  // belongs to whoever exchanges it for another
  bool refused_ = false;                            // one waits, but no task is under way that takes it
};

}  // namespace pvrdma::cluster
