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

  // `loop` is borrowed. `apply` runs on its thread, as a task. Where it has no memory (bad_alloc) it is
  // called again after the next retry().
  ViewSlot(shard::Loop& loop, Apply apply) : loop_(loop), apply_(std::move(apply)) {}
  ~ViewSlot();
  ViewSlot(const ViewSlot&) = delete;
  ViewSlot& operator=(const ViewSlot&) = delete;

  void put(HostView view);
  // Posts again what the loop's mailbox had no room for, or the shard no memory.
  void retry();

 private:
  void take();

  shard::Loop& loop_;
  const Apply apply_;
  std::atomic<const HostView*> waiting_ = nullptr;  // belongs to whoever exchanges it for another
  std::atomic<bool> put_back_ = false;              // by the shard: a task is wanted
  bool refused_ = false;                            // one waits, but no task is under way that takes it
};

}  // namespace pvrdma::cluster
