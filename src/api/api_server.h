// ApiServer: the daemon's HTTP/JSON API on a UNIX socket (mode 0660 less the umask), and optionally on TCP
// with TLS and a bearer token. docs/api.md tells people how to use it; GET /openapi.json lists all requests.
//
// Errors are {"error": "one sentence"}. What is asked about adapters is asked of the shard by message for a
// Snapshot; what is asked about the cluster is answered from the plane's inventory and changed by its edits.
// Nothing here touches what a shard owns.
//
// Thread: created, started and destroyed by one thread; it answers on threads of its own, at most kThreads at
// a time on the UNIX socket, TlsListener::kThreads more on TCP.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "api/routes.h"
#include "base/result.h"
#include "control/config/config.h"

namespace pvrdma::api {

class ApiServer {
 public:
  static constexpr std::size_t kThreads = 8;  // captures, four at most, may hold one each

  // Binds and listens; clients wait until start(). `parts` outlives the server. Errors, each one sentence
  // that names the object and the way out: the path or the address is in use, or bind's errno; a file of
  // `tcp` cannot be used.
  static Result<std::unique_ptr<ApiServer>> listen(
      const std::string& path, const ApiParts& parts,
      const std::optional<control::ApiTcpConfig>& tcp = std::nullopt);

  // Finishes requests whose handler runs, drops the others, and removes the socket file.
  ~ApiServer();
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

  // Begins to answer. Once.
  void start();

  // Where it listens on TCP; 0: it does not.
  std::uint16_t tcp_port() const;

 private:
  struct Impl;
  explicit ApiServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pvrdma::api
