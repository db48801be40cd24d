// ShardThread: the thread of one shard.
//
// The thread is made before it runs its loop, because it must be bound to a core before the process is
// confined: the sandbox forbids that.
//
// Thread: main().
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
  // `shard` is the shard's number, which names the thread. The thread runs on `core` only; nullopt: on any
  // core. `loop` is borrowed. Errors: the system has no thread, or the kernel refuses to bind it to `core`.
  static Result<std::unique_ptr<ShardThread>> create(std::uint32_t shard, shard::Loop& loop,
                                                     std::optional<std::uint32_t> core);
  ~ShardThread();  // stops the loop, if it runs, and waits for its end
  ShardThread(const ShardThread&) = delete;
  ShardThread& operator=(const ShardThread&) = delete;

  // Runs the loop. Called once.
  void start() { decide(Order::kRun); }

 private:
  enum class Order : std::uint8_t { kWait, kRun, kEnd };

  ShardThread(std::uint32_t shard, shard::Loop& loop) : shard_(shard), loop_(loop) {}
  void follow_orders();
  void decide(Order order);

  const std::uint32_t shard_;
  shard::Loop& loop_;
  std::atomic<Order> order_ = Order::kWait;
  std::thread thread_;
};

}  // namespace pvrdma::daemon
