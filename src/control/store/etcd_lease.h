// EtcdLease: the lease of this process's leased records. Its own thread grants it, keeps it alive, and
// replaces it when it is lost.
//
// The keep-alives also tell a quiet watch from a dead one. They come at least every 5 s. A failed keep-alive
// makes EtcdClient leave the endpoint, which also ends the watch there. Thread: any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "control/store/etcd_client.h"

namespace pvrdma::control::etcd {

class EtcdLease {
 public:
  // `client` is borrowed. `on_lost` is called on the lease's thread after a new lease has replaced a lost
  // one.
  EtcdLease(EtcdClient& client, std::function<void()> on_lost);
  ~EtcdLease();
  EtcdLease(const EtcdLease&) = delete;
  EtcdLease& operator=(const EtcdLease&) = delete;

  void start();
  // Ends the thread; the client must have been interrupted. Returns the remaining lease, which is to be
  // revoked, or 0.
  std::int64_t stop();

  // 0: there is no lease now. A lease that was gone once does not return.
  std::int64_t current();
  // Waits until there is a lease, `patience` is over, or stop() is called.
  void wait_granted(std::chrono::milliseconds patience);
  // Etcd no longer knows `lease`.
  void lost(std::int64_t lease);

 private:
  using Time = std::chrono::steady_clock::time_point;
  void run();
  void obtain(std::unique_lock<std::mutex>& lock);
  void refresh(std::unique_lock<std::mutex>& lock);
  // `asked`: when etcd was asked for what it granted. `lock` is held.
  void hold(const LeaseState& granted, Time asked);
  bool is_valid() const { return id_ != 0 && std::chrono::steady_clock::now() < expires_; }

  EtcdClient& client_;
  const std::function<void()> on_lost_;
  const std::chrono::milliseconds period_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool urgent_ = false;  // a caller waits for a lease
  bool had_one_ = false;
  std::int64_t id_ = 0;  // 0: no lease
  Time refresh_at_{};    // of id_
  Time expires_{};       // when id_ ends as far as this side knows; never later than etcd's own time
  std::thread thread_;
};

}  // namespace pvrdma::control::etcd
