// EtcdLease: the lease that this process's records hang on. Granted and kept alive by a thread of its own;
// granted anew when it is lost.
//
// The keep-alives are also the sign of life that tells a quiet watch from a dead one: they come at least
// every 5 s, and one that fails makes EtcdClient leave the endpoint, the watch with it. Thread: any thread.
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
  // `client` is borrowed. `on_lost` is called on the lease's thread when a new lease has taken the place of
  // one that is lost.
  EtcdLease(EtcdClient& client, std::function<void()> on_lost);
  ~EtcdLease();
  EtcdLease(const EtcdLease&) = delete;
  EtcdLease& operator=(const EtcdLease&) = delete;

  void start();
  // Ends the thread; the client has been interrupted. Answers the lease that is left to be revoked, 0: none.
  std::int64_t stop();

  // 0: there is none at present. One that was gone once does not come back.
  std::int64_t current();
  // Waits until there is one, or `patience` is over, or stop().
  void wait_granted(std::chrono::milliseconds patience);
  // Etcd does not know `lease` any more.
  void lost(std::int64_t lease);

 private:
  using Time = std::chrono::steady_clock::time_point;
  void run();
  void obtain(std::unique_lock<std::mutex>& lock);
  void refresh(std::unique_lock<std::mutex>& lock);

  EtcdClient& client_;
  const std::function<void()> on_lost_;
  const std::chrono::milliseconds period_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool urgent_ = false;  // somebody waits for a lease
  bool had_one_ = false;
  std::int64_t id_ = 0;  // 0: none
  Time expires_{};       // of id_, as far as this side can know: never later than etcd's own idea
  std::thread thread_;
};

}  // namespace pvrdma::control::etcd
