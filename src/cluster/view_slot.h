// ViewSlot: the newest view on its way to the shard. It replaces one that the shard has not taken yet.
//
// Thread: put() and retry() one; destroyed after the loop has ended.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "cluster/shard_view.h"
#include "shard/loop.h"

namespace pvrdma::cluster {

class ViewSlot {
 public:
  using Apply = std::function<void(const ShardView& view)>;

  // `loop` is borrowed. `apply` runs on its thread, as a task. If it fails for want of memory (bad_alloc), it
  // is called again after the next retry().
  ViewSlot(shard::Loop& loop, Apply apply) : loop_(loop), apply_(std::move(apply)) {}
  ~ViewSlot();
  ViewSlot(const ViewSlot&) = delete;
  ViewSlot& operator=(const ViewSlot&) = delete;

  void put(ShardView view);
  // Posts the task again if the mailbox had no room, or the shard no memory.
  void retry();

 private:
  void take();

  shard::Loop& loop_;
  const Apply apply_;
  std::atomic<const ShardView*> waiting_ = nullptr;  // whoever exchanges it for another pointer owns the view
  std::atomic<bool> put_back_ = false;               // set by the shard: a new task is needed
  bool refused_ = false;                             // a view waits, but no task to take it is posted
};

}  // namespace pvrdma::cluster
