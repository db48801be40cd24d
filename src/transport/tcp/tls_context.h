// TlsContext: this host's certificate and the authority it trusts, and the TLS streams made with them.
//
// TLS 1.3 only, both sides show a certificate, no tickets, no early data. A stream does not care whom it
// talks to as long as the authority signed for it: comparing names is the link's (Stream::peer_is).
//
// Thread: shard-owned; immutable after create. Outlives its streams or not, as it likes.
#pragma once

#include <memory>

#include "base/fd.h"
#include "base/result.h"
#include "transport/tcp/stream.h"
#include "transport/tcp/tcp.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace pvrdma::transport::tcp {

class TlsContext {
 public:
  // Reads the files. Errors name the file: unreadable, not PEM, an encrypted key, a key that does not fit the
  // certificate. A key file that everyone may read, and a certificate that is not valid now, are warnings in
  // the log.
  static Result<std::unique_ptr<TlsContext>> create(const TlsFiles& files);

  // Of connected stream sockets. Error: out of memory, in effect.
  Result<std::unique_ptr<Stream>> client(Fd socket) const;
  Result<std::unique_ptr<Stream>> server(Fd socket) const;

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const;
  };
  using Owned = std::unique_ptr<ssl_ctx_st, Free>;
  explicit TlsContext(Owned context) : context_(std::move(context)) {}
  Owned context_;
};

}  // namespace pvrdma::transport::tcp
