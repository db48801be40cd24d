// EtcdWatch: reports the contents of etcd to the observer, on its own thread.
//
// It reads everything at one revision, and then watches from the next one. A broken watch continues from the
// last revision seen. If etcd has compacted that revision, or is another cluster than before, it reads
// everything again. Thread: one thread creates, starts and stops it.
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
  // All are borrowed. The observer hears that the store is reachable only when there also is a lease.
  EtcdWatch(EtcdClient& client, EtcdLease& lease, ObserverQueue& queue)
      : client_(client), lease_(lease), queue_(queue) {}
  ~EtcdWatch() { stop(); }
  EtcdWatch(const EtcdWatch&) = delete;
  EtcdWatch& operator=(const EtcdWatch&) = delete;

  void start();
  void stop();  // the client must have been interrupted
  // Another etcd may have answered so far, so everything is read again soon. Any thread.
  void doubt() { doubted_ = true; }

 private:
  void run();
  std::string follow();  // returns the reason when it fails
  Outcome<void> catch_up();
  void take(WatchLine line);
  void tell(bool connected, const std::string& why);
  bool stopping();

  EtcdClient& client_;
  EtcdLease& lease_;
  ObserverQueue& queue_;

  // Used only by the thread.
  std::int64_t revision_ = 0;  // all changes up to it were reported; 0: read everything
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
