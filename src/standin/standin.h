// StandIn: stands in for a guest's kernel. It owns one adapter and serves it to processes, each of which is a
// user context of the device.
//
// One loop waits for new processes, their requests, the device's interrupts, the time limits of connections
// and the daemon's end. A request
// blocks the loop until the device has answered. No process can hold it up otherwise.
//
// Thread: one.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ip_address.h"
#include "base/log.h"
#include "base/result.h"
#include "base/socket_owner.h"
#include "base/time.h"
#include "base/unix_listener.h"
#include "standin/adapter.h"
#include "standin/cm_service.h"
#include "standin/process.h"

namespace pvrdma::standin {

struct StandInOptions {
  std::string socket;                   // the adapter's vfio-user socket
  std::string folder;                   // gets the socket and the tree of wire.h; exists
  std::vector<IpAddress> addresses;     // GIDs after the link-local one
  std::optional<gid_t> group;           // may use the adapter, too
  std::optional<abi::Mac> gateway_mac;  // the next hop to native endpoints that are on no link of this host
  // Ends that long after its last process, unless the folder has a file named "keep".
  std::optional<Duration> idle_end;
};

// Why a stand-in ended.
enum class End : std::uint8_t { kStopped, kIdle, kAdapterGone };

class StandIn {
 public:
  // Starts the adapter, writes the tree and listens. Errors: each one sentence with the path.
  static Result<std::unique_ptr<StandIn>> create(StandInOptions options);

  // Serves until `stop_fd` is readable, the daemon is gone and the last process has left, or nobody has used
  // the adapter for the time of the options.
  End run(int stop_fd);

  std::size_t process_count() const { return processes_.size(); }
  const Adapter& adapter() const { return *adapter_; }

 private:
  StandIn(StandInOptions options, std::unique_ptr<Adapter> adapter, std::unique_ptr<CmService> cm,
          std::unique_ptr<UnixListener> listener)
      : options_(std::move(options)),
        adapter_(std::move(adapter)),
        cm_(std::move(cm)),
        listener_(std::move(listener)) {}

  void take_process();
  void serve_connections();
  void lose_adapter();
  Duration patience() const;
  int poll_timeout_ms() const;
  bool is_kept() const;

  StandInOptions options_;
  std::unique_ptr<Adapter> adapter_;
  std::unique_ptr<CmService> cm_;
  std::unique_ptr<UnixListener> listener_;
  std::list<Process> processes_;
  log::LogLimiter log_{10, std::chrono::seconds(10)};  // programs decide how often they break rules
  Instant last_used_ = Instant::now();
};

}  // namespace pvrdma::standin
