// Context: what this end of TLS connections shows and whom it trusts; makes the streams.
//
// There are two kinds. Both speak no compression, no tickets, no renegotiation and no early data, and read a
// key only if it has no passphrase. A stream of a mutual context does not care whom it talks to as long as
// the authority signed for it: comparing names is its user's (Stream::peer_is).
//
// Thread: any; immutable after it was made. Outlives its streams or not, as it likes.
#pragma once

#include <memory>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "tls/stream.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace pvrdma::tls {

// PEM files.
struct Files {
  std::string ca;           // authorities that may sign for a peer
  std::string certificate;  // with its chain
  std::string key;
};

class Context {
 public:
  // Both read the files. Errors name the file: unreadable, not PEM, a key with a passphrase, a key that does
  // not fit the certificate. A key file that everyone may read, and a certificate that is not valid now, are
  // warnings in the log.

  // For peers that prove to each other who they are: TLS 1.3 only, both sides show a certificate.
  static Result<std::unique_ptr<Context>> mutual(const Files& files);
  // For clients of any make: TLS 1.2 or newer; they show no certificate and prove otherwise who they are.
  // Makes no client().
  static Result<std::unique_ptr<Context>> server_only(const std::string& certificate, const std::string& key);

  // Whether the certificate that is shown is for the host `name`; with wildcards.
  bool is_certified_as(const std::string& name) const;

  // Of connected stream sockets. Error: out of memory, in effect.
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
