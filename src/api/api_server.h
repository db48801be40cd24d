// ApiServer: the daemon's HTTP/JSON API on a UNIX socket (mode 0660 less the umask), and optionally on TCP
// with TLS and a bearer token. docs/api.md tells people how to use it; GET /openapi.json lists all requests.
//
// Errors are {"error": "one sentence"}. Requests about adapters ask the shard for a Snapshot, by message.
// Requests about the cluster are answered from the plane's inventory and change it through the plane's edits.
// Nothing here touches objects that a shard owns.
//
// Thread: one thread creates, starts and destroys it. It answers on threads of its own: at most kThreads for
// the UNIX socket, and TlsListener::kThreads more for TCP.
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
  // Half of them serve one user at most: four captures, four watchers, and eight for requests.
  static constexpr std::size_t kThreads = 32;

  // Binds and listens; clients wait until start(). `parts` outlives the server. Each error is one sentence
  // that names the object and the way out: the path or the address is in use, or bind() failed; a file in
  // `tcp` cannot be used.
  static Result<std::unique_ptr<ApiServer>> listen(
      const std::string& path, const ApiParts& parts,
      const std::optional<control::ApiTcpConfig>& tcp = std::nullopt);

  // Finishes requests whose handler is running, drops the others, and removes the socket file.
  ~ApiServer();
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

  // For requests that come by another way than the listeners. It may outlive the server.
  std::shared_ptr<const Router> router() const;

  // Starts to answer. Call it once.
  void start();

  // The TCP port; 0: it does not listen on TCP.
  std::uint16_t tcp_port() const;
  // The certificate that it presents on TCP; null: it does not listen on TCP. Thread: any.
  std::shared_ptr<tls::Context> tls() const;

 private:
  struct Impl;
  explicit ApiServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pvrdma::api
