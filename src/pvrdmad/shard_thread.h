// ShardThread: the thread that is the shard of this process.
//
// It is there before it runs its loop, so that it can be bound to a core before the process is confined:
// afterwards no thread can be bound to any.
//
// Thread: control only.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "base/result.h"
#include "shard/loop.h"

namespace pvrdma::daemon {

class ShardThread {
 public:
  // Runs on `core` only; none: anywhere. `loop` is borrowed. Errors: the kernel has no thread, or lets none
  // be bound there.
  static Result<std::unique_ptr<ShardThread>> create(shard::Loop& loop, std::optional<std::uint32_t> core);
  ~ShardThread();  // stops the loop, if it runs, and waits for its end
  ShardThread(const ShardThread&) = delete;
  ShardThread& operator=(const ShardThread&) = delete;

  // Runs the loop. Once.
  void start() { decide(Order::kRun); }

 private:
  enum class Order : std::uint8_t { kWait, kRun, kEnd };

  explicit ShardThread(shard::Loop& loop) : loop_(loop) {}
  void follow_orders();
  void decide(Order order);

  shard::Loop& loop_;
  std::atomic<Order> order_ = Order::kWait;
  std::thread thread_;
};

}  // namespace pvrdma::daemon
