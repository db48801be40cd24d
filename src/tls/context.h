// Context: what this end of TLS connections presents and which peers it trusts; it makes the streams.
//
// There are two kinds. Neither uses compression, tickets, renegotiation or early data, and both refuse a key
// with a passphrase. A stream of a mutual context accepts any peer whose certificate the authority signed;
// the stream's user compares names (Stream::peer_is).
//
// Thread: any; immutable after it was made. May be destroyed before its streams.
#pragma once

#include <memory>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "tls/stream.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace pvrdma::tls {

// Paths of PEM files.
struct Files {
  std::string ca;           // authorities that may sign a peer's certificate
  std::string certificate;  // with its chain
  std::string key;
};

class Context {
 public:
  // Both read the files. An error names the file: unreadable, not PEM, a key with a passphrase, or a key that
  // does not fit the certificate. A world-readable key file or a certificate that is not valid now only
  // causes a warning in the log.

  // For peers that authenticate each other: TLS 1.3 only, both sides present a certificate.
  static Result<std::unique_ptr<Context>> mutual(const Files& files);
  // For any client: TLS 1.2 or newer. Clients present no certificate and authenticate in another way.
  // client() cannot be used.
  static Result<std::unique_ptr<Context>> server_only(const std::string& certificate, const std::string& key);

  // Whether this context's certificate is for the host `name`, which a wildcard may match.
  bool is_certified_as(const std::string& name) const;

  // Make a stream of a connected stream socket. The only error in practice is out of memory.
  Result<std::unique_ptr<Stream>> client(Fd socket) const;
  Result<std::unique_ptr<Stream>> server(Fd socket) const;

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const;
  };
  using Owned = std::unique_ptr<ssl_ctx_st, Free>;
  explicit Context(Owned context) : context_(std::move(context)) {}
  Owned context_;
};

}  // namespace pvrdma::tls
