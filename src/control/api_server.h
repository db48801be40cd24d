// ApiServer: the daemon's HTTP/JSON API on a UNIX socket (mode 0660 less the umask).
//
//   GET /v1/version            {"version", "api"}
//   GET /v1/adapters           list of adapters
//   GET /v1/adapters/NAME      one adapter; 404 when there is none of that name
//   GET /v1/qps[?adapter=NAME] list of QPs
//   GET /v1/stats[?adapter=NAME]  counters by adapter and of the host
//   PUT /v1/adapters/NAME/link   {"up": false} takes the adapter's link down, true up again; answers as GET
//                              /v1/adapters/NAME
//   GET /metrics               the same counters as Prometheus text
//
// Errors are {"error": "one sentence"} with a 4xx status, or 503 while the shard does not answer. Each
// request asks the shard for a Snapshot by message; nothing here touches what a shard owns.
//
// Thread: created, started and destroyed by one thread; it answers on threads of its own, at most kThreads at
// a time.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "control/adapter_control.h"
#include "control/snapshot.h"

namespace pvrdma::control {

class ApiServer {
 public:
  static constexpr std::size_t kThreads = 4;

  // Binds and listens; clients wait until start(). `source` and `control` are borrowed and outlive the
  // server. Errors, each one sentence with the path and the way out: the path is in use, or bind's errno.
  static Result<std::unique_ptr<ApiServer>> listen(const std::string& path, std::string version,
                                                   SnapshotSource& source, AdapterControl& control);

  // Answers the requests under way (a client that sends slowly has 2 s), then removes the socket file.
  ~ApiServer();
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

  // Begins to answer. Once.
  void start();

 private:
  struct Impl;
  explicit ApiServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pvrdma::control
