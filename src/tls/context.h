// Context: what this end of TLS connections presents and which peers it trusts; it makes the streams.
//
// There are two kinds. Neither uses compression, tickets, renegotiation or early data, and both refuse a key
// with a passphrase. A stream of a mutual context accepts any peer whose certificate the authority signed;
// the stream's user compares names (Stream::peer_is).
//
// Its files can be replaced while it is used: reload() reads them again. Streams that exist keep what they
// have.
//
// Thread: any. May be destroyed before its streams.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
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

  // Reads the files again; later streams use them. After an error, which is one of those above, later streams
  // use what earlier ones did. Blocks: not for the shard's thread.
  Result<void> reload();

  const std::string& certificate_file() const { return files_.certificate; }
  // When the certificate expires, in seconds since the epoch.
  std::uint64_t not_after_s() const;

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
  using Load = Result<Owned> (*)(const Files& files);
  Context(Load load, Files files, Owned context)
      : load_(load), files_(std::move(files)), context_(std::move(context)) {}
  static Result<std::unique_ptr<Context>> make(Load load, Files files);
  static Result<Owned> load_mutual(const Files& files);
  static Result<Owned> load_server_only(const Files& files);
  Owned current() const;

  const Load load_;
  const Files files_;
  mutable std::mutex mutex_;  // held to copy the pointer only, because the shard makes streams
  Owned context_;
};

}  // namespace pvrdma::tls
