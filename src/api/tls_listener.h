// TlsListener: answers HTTP over TLS (1.2 or newer) on a TCP address. A connection carries one request.
//
// A client that is silent, slow or endless holds one of kThreads threads only for a bounded time: kSilence
// without a byte, kRequestTime for handshake and request together, kRequestBytesMax bytes. Then its
// connection is closed. A capture or a watcher keeps its thread as long as the client reads; there are at
// most four captures and six watchers, four of one client.
//
// Thread: one thread creates, starts and destroys it. It has threads of its own, which it does not share with
// the UNIX socket.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "api/router.h"
#include "base/result.h"
#include "control/config/config.h"
#include "tls/context.h"

namespace pvrdma::api {

// Reads certificate and key. The error is one sentence that names the file.
Result<std::unique_ptr<tls::Context>> make_tls_context(const control::ApiTcpConfig& config);

class TlsListener {
 public:
  static constexpr std::size_t kThreads = 32;  // half of them serve one address at most
  static constexpr std::chrono::milliseconds kSilence{2000};
  static constexpr std::chrono::milliseconds kRequestTime{5000};
  static constexpr std::size_t kRequestBytesMax = 2 * kBodyBytesMax;

  // Reads certificate and key, binds and listens. Port 0 means any free port. `router` is borrowed. The error
  // is one sentence with the file or address and the reason.
  static Result<std::unique_ptr<TlsListener>> listen(const control::ApiTcpConfig& config,
                                                     const Router& router);
  ~TlsListener();  // finishes requests whose handler runs, drops the others
  TlsListener(const TlsListener&) = delete;
  TlsListener& operator=(const TlsListener&) = delete;

  void start();  // once
  std::uint16_t port() const;
  std::shared_ptr<tls::Context> tls() const;  // thread: any; it may outlive this

 private:
  struct Impl;
  explicit TlsListener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pvrdma::api
