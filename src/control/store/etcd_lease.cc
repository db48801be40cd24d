#include "control/store/etcd_lease.h"

#include <algorithm>
#include <utility>

#include "base/control_thread.h"

namespace pvrdma::control::etcd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kLongestPeriod{5000};
constexpr milliseconds kRetry{500};

}  // namespace

EtcdLease::EtcdLease(EtcdClient& client, std::function<void()> on_lost)
    : client_(client),
      on_lost_(std::move(on_lost)),
      period_(std::min(kLongestPeriod, milliseconds(seconds(client.config().lease_seconds)) / 3)) {}

EtcdLease::~EtcdLease() {
  stop();
}

void EtcdLease::start() {
  thread_ = std::thread([this] { run(); });
}

std::int64_t EtcdLease::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  const std::scoped_lock lock(mutex_);  // the watch and a late commit() may still call
  return std::exchange(id_, 0);
}

std::int64_t EtcdLease::current() {
  const std::scoped_lock lock(mutex_);
  return is_valid() ? id_ : 0;
}

void EtcdLease::wait_granted(milliseconds patience) {
  std::unique_lock lock(mutex_);
  if (is_valid()) return;
  urgent_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, patience, [&] { return is_valid() || stopping_; });
}

void EtcdLease::lost(std::int64_t lease) {
  const std::scoped_lock lock(mutex_);
  if (id_ != lease) return;
  id_ = 0;
  changed_.notify_all();
}

void EtcdLease::run() {
  begin_control_thread("store-lease");
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (id_ == 0) {
      obtain(lock);
    } else {
      refresh(lock);
    }
  }
}

void EtcdLease::obtain(std::unique_lock<std::mutex>& lock) {
  urgent_ = false;
  lock.unlock();
  const Time asked = std::chrono::steady_clock::now();
  const auto granted = client_.grant(client_.config().lease_seconds);
  lock.lock();
  if (!granted) {
    changed_.wait_for(lock, kRetry, [&] { return stopping_ || urgent_; });
    return;
  }
  id_ = granted->id;
  hold(*granted, asked);
  const bool again = std::exchange(had_one_, true);
  if (!again) return;
  lock.unlock();
  on_lost_();
  lock.lock();
}

void EtcdLease::refresh(std::unique_lock<std::mutex>& lock) {
  const std::int64_t id = id_;
  changed_.wait_until(lock, refresh_at_, [&] { return stopping_ || id_ != id; });
  // A failed keep-alive is repeated soon. There is time for a few before the lease ends.
  while (!stopping_ && id_ == id) {
    lock.unlock();
    const Time asked = std::chrono::steady_clock::now();
    const auto alive = client_.keep_alive(id, std::max(period_, milliseconds(1000)));
    lock.lock();
    if (stopping_ || id_ != id) return;
    // A late answer does not bring the lease back: current() may already have reported that it is gone.
    const bool gone = alive ? alive->ttl_s <= 0 : alive.error().code == Code::kNotFound;
    if (gone || std::chrono::steady_clock::now() >= expires_) {
      id_ = 0;
      return;
    }
    if (alive) {
      hold(*alive, asked);
      return;
    }
    changed_.wait_for(lock, kRetry, [&] { return stopping_ || id_ != id; });
  }
}

// The lease is refreshed early enough even if etcd took long to answer.
void EtcdLease::hold(const LeaseState& granted, Time asked) {
  refresh_at_ = asked + period_;
  expires_ = asked + seconds(granted.ttl_s);
  changed_.notify_all();
}

}  // namespace pvrdma::control::etcd
