#include "device/client_eventfd.h"

#include <fcntl.h>
#include <new>
#include <utility>

#include "base/fd.h"
#include "base/reaper.h"
#include "device/eventfd_signal.h"

namespace pvrdma::device {
namespace {

// A signal whose destructor makes it. It has a descriptor of its own, because the client may replace the
// eventfd meanwhile.
class WaitingSignal final : public Reapable {
 public:
  WaitingSignal(Fd eventfd, std::shared_ptr<ClientEventfd::Shared> shared)
      : eventfd_(std::move(eventfd)), shared_(std::move(shared)) {}
  WaitingSignal(const WaitingSignal&) = delete;
  WaitingSignal& operator=(const WaitingSignal&) = delete;
  ~WaitingSignal() override {
    // Before the signal: what is raised from now on needs another one.
    shared_->waits.exchange(false, std::memory_order_acq_rel);
    const SteadyClock clock;
    const Duration before = clock.thread_cpu();
    signal_eventfd(eventfd_.get());
    if (clock.thread_cpu() - before >= ClientEventfd::kSlow)
      shared_->was_slow.store(true, std::memory_order_relaxed);
  }

 private:
  const Fd eventfd_;
  const std::shared_ptr<ClientEventfd::Shared> shared_;
};

}  // namespace

ClientEventfd::ClientEventfd(ClientFd eventfd)
    : eventfd_(std::move(eventfd)),
      shared_(eventfd_.queue() != nullptr ? std::make_shared<Shared>() : nullptr) {}

ClientEventfd::Signal ClientEventfd::signal(const Clock& clock) {
  if (slow_until_ != Instant{}) [[unlikely]] {
    const Instant now = clock.now();
    if (shared_->was_slow.exchange(false, std::memory_order_relaxed)) slow_until_ = now + kSlowFor;
    if (now < slow_until_ && give_to_thread()) return Signal::kMade;
    if (now >= slow_until_) slow_until_ = Instant{};
  }
  return signal_here(clock);
}

ClientEventfd::Signal ClientEventfd::signal_here(const Clock& clock) {
  const bool measures = lasted_long_ && shared_ != nullptr;
  const Duration cpu = measures ? clock.thread_cpu() : Duration{};
  const Instant begin = clock.now();
  if (!signal_eventfd(eventfd_.get())) return Signal::kFailed;
  const Instant end = clock.now();
  lasted_long_ = end - begin >= kSlow;
  if (!measures || clock.thread_cpu() - cpu < kSlow) return Signal::kMade;
  slow_until_ = end + kSlowFor;
  return Signal::kMadeSlowly;
}

// False: the system has no descriptor or no memory.
bool ClientEventfd::give_to_thread() const {
  if (shared_->waits.exchange(true, std::memory_order_acq_rel)) return true;
  Fd copy(::fcntl(eventfd_.get(), F_DUPFD_CLOEXEC, 0));
  std::unique_ptr<Reapable> signal(copy ? new (std::nothrow) WaitingSignal(std::move(copy), shared_)
                                        : nullptr);
  if (signal == nullptr) {
    shared_->waits.store(false, std::memory_order_relaxed);
    return false;
  }
  eventfd_.queue()->release(std::move(signal));
  return true;
}

}  // namespace pvrdma::device
