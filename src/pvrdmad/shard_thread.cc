#include "pvrdmad/shard_thread.h"

#include <fmt/core.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <system_error>
#include <utility>

#include "base/cores.h"
#include "base/log.h"

namespace pvrdma::daemon {
namespace {

// The kernel's default is 50 us, which is longer than a timed look (shard/pace.h).
constexpr unsigned long kTimerSlackNs = 1;

}  // namespace

Result<std::unique_ptr<ShardThread>> ShardThread::create(std::uint32_t shard, shard::Loop& loop,
                                                         std::optional<std::uint32_t> core) {
  std::unique_ptr<ShardThread> made(new ShardThread(shard, loop));
  try {
    made->thread_ = std::thread([&made = *made] { made.follow_orders(); });
  } catch (const std::system_error& error) {
    return fail_errno(error.code().value(), "cannot start the thread of the adapters");
  }
  if (!core) return made;
  if (auto bound = bind_to_core(made->thread_, *core); !bound) {
    return Failure(std::move(bound).error().in(fmt::format("dedicated_core = {} in [daemon]", *core)));
  }
  log::info("pvrdmad: the thread of the adapters has core {}", *core);
  return made;
}

ShardThread::~ShardThread() {
  if (!thread_.joinable()) return;
  if (order_.load() == Order::kWait) {
    decide(Order::kEnd);
  } else {
    loop_.stop();
  }
  thread_.join();
}

void ShardThread::decide(Order order) {
  order_.store(order, std::memory_order_release);
  order_.notify_one();
}

void ShardThread::follow_orders() {
  // Named here, because another thread's name is a file, which the sandbox forbids.
  ::pthread_setname_np(::pthread_self(), fmt::format("shard-{}", shard_).c_str());
  ::prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  order_.wait(Order::kWait, std::memory_order_acquire);
  if (order_.load(std::memory_order_acquire) == Order::kRun) loop_.run();
}

}  // namespace pvrdma::daemon
