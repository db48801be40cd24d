// TlsListener: answers HTTP over TLS (1.2 or newer) on a TCP address. One request a connection.
//
// A client that is silent, slow or endless costs one of kThreads threads for a bounded time: kSilence without
// a byte, kRequestTime for handshake and request together, kRequestBytesMax bytes; then its connection is
// closed. One that captures keeps its thread as long as it reads; of captures there are four at most.
//
// Thread: created, started and destroyed by one thread; threads of its own, none of them shared with the UNIX
// socket.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "api/router.h"
#include "base/result.h"
#include "control/config/config.h"

namespace pvrdma::api {

class TlsListener {
 public:
  static constexpr std::size_t kThreads = 8;
  static constexpr std::chrono::milliseconds kSilence{2000};
  static constexpr std::chrono::milliseconds kRequestTime{5000};
  static constexpr std::size_t kRequestBytesMax = 2 * kBodyBytesMax;

  // Reads certificate and key, binds and listens; port 0: any free one. `router` is borrowed. Errors: one
  // sentence with the file or address and the reason.
  static Result<std::unique_ptr<TlsListener>> listen(const control::ApiTcpConfig& config,
                                                     const Router& router);
  ~TlsListener();  // finishes requests whose handler runs, drops the others
  TlsListener(const TlsListener&) = delete;
  TlsListener& operator=(const TlsListener&) = delete;

  void start();  // once
  std::uint16_t port() const;

 private:
  struct Impl;
  explicit TlsListener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pvrdma::api
