// EtcdWatch: keeps the observer told what is in etcd, on a thread of its own.
//
// Reads everything at one revision, then watches from the next one. A watch that breaks goes on from the last
// revision seen; where etcd has compacted that away, or is another cluster than before, everything is read
// again.
// Thread: created, started and stopped by one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "control/store/etcd_client.h"
#include "control/store/etcd_lease.h"
#include "control/store/observer_queue.h"

namespace pvrdma::control::etcd {

class EtcdWatch {
 public:
  // All borrowed. The observer is told that the store is reachable once there is a lease, too.
  EtcdWatch(EtcdClient& client, EtcdLease& lease, ObserverQueue& queue)
      : client_(client), lease_(lease), queue_(queue) {}
  ~EtcdWatch() { stop(); }
  EtcdWatch(const EtcdWatch&) = delete;
  EtcdWatch& operator=(const EtcdWatch&) = delete;

  void start();
  void stop();  // the client has been interrupted
  // What was told may have been another etcd's: everything is read again, soon. Any thread.
  void doubt() { doubted_ = true; }

 private:
  void run();
  std::string follow();  // until it fails; says why
  Outcome<void> catch_up();
  void take(WatchLine line);
  void tell(bool connected, const std::string& why);
  bool stopping();

  EtcdClient& client_;
  EtcdLease& lease_;
  ObserverQueue& queue_;

  // The thread's own.
  std::int64_t revision_ = 0;  // everything up to it has been told; 0: read everything
  std::uint64_t cluster_id_ = 0;
  bool connected_ = false;
  std::string trouble_;

  std::atomic<bool> doubted_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace pvrdma::control::etcd
