// Daemon: the object graph of pvrdmad, from a checked configuration to a running shard, and back.
//
// Starting is all or nothing: every socket is bound before anything is served or announced, and a failure
// removes what had been made. Stopping: the API ends first (nobody asks any more), the shard finishes its
// turn and what was posted, then adapters, switch and transport are destroyed, each socket file removed.
//
// Thread: created, started, stopped and destroyed by main(); the shard and the API have threads of their own.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "control/api_server.h"
#include "control/config.h"
#include "fabric/switch.h"
#include "pvrdmad/served_adapter.h"
#include "pvrdmad/shard_control.h"
#include "pvrdmad/shard_snapshots.h"
#include "shard/loop.h"
#include "transport/local/local.h"

namespace pvrdma::daemon {

class Daemon {
 public:
  // Binds every socket. Errors: one sentence for the operator; nothing is left behind.
  static Result<std::unique_ptr<Daemon>> create(const control::Config& config, const std::string& version);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Starts the threads. Once. Errors: the kernel refuses to watch a socket.
  Result<void> start();

 private:
  Daemon() = default;

  // In the order of dependence: each borrows from those before it.
  SteadyClock clock_;
  transport::Local local_;
  std::unique_ptr<shard::Loop> loop_;
  fabric::Switch switch_{local_, clock_};
  std::vector<std::unique_ptr<ServedAdapter>> adapters_;
  std::unique_ptr<ShardSnapshots> snapshots_;
  std::unique_ptr<ShardControl> control_;
  std::unique_ptr<control::ApiServer> api_;
  std::thread shard_;
};

}  // namespace pvrdma::daemon
