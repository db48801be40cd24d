// Stream: one TLS connection over a socket. Never blocks, whatever the socket's mode, and raises no SIGPIPE.
//
// Whom it trusts and which versions it speaks are its context's. What is written becomes records at once;
// after kRecordsPerKey of them the key of our direction changes (TLS 1.3).
//
// What a peer says of TLS itself after the handshake (new keys, and in TLS 1.2 the wish for new handshakes)
// costs it a few bytes and us much work, and OpenSSL deals with all that is there in one call. So there is a
// bound, which grows with the data that came; beyond it the stream is broken.
//
// Thread: owned by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

// OpenSSL's SSL_CTX, SSL and X509_STORE_CTX.
struct ssl_ctx_st;
struct ssl_st;
struct x509_store_ctx_st;

namespace pvrdma::tls {

inline constexpr std::size_t kRecordBytes = 16 * 1024;  // the most that one record carries (RFC 8446, 5.1)

// Far below the 2^24.5 full records that AES-GCM allows (RFC 8446, 5.5); 1 GiB.
inline constexpr std::uint64_t kRecordsPerKey = 65536;

// Messages of TLS itself that a peer may send after the handshake: so many, and one more for each so many
// bytes of data. Our own kind changes its key after kRecordsPerKey frames, each larger than 16 bytes.
inline constexpr std::uint64_t kControlMessages = 16;
inline constexpr std::uint64_t kBytesPerControlMessage = 1024 * 1024;

enum class Role : std::uint8_t { kClient, kServer };

enum class Io : std::uint8_t {
  kDone,
  kWantRead,   // again when the descriptor is readable
  kWantWrite,  // again when it is writable
  kClosed,     // the peer ended the stream in order; nothing more comes
  kBroken,     // trouble() says why; the stream is of no more use
};

struct Transfer {
  Io io{};
  std::size_t bytes = 0;  // not 0 with kDone only
};

struct Socket;  // in stream.cc

class Stream {
 public:
  // `socket` is a connected stream socket; `context` may be freed before the stream. Error: out of memory.
  static Result<std::unique_ptr<Stream>> create(Fd socket, ssl_ctx_st& context, Role role);
  ~Stream();  // shuts down
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  int fd() const;

  // Goes on with the handshake as far as it gets; before kDone nothing else may be called but fd() and
  // trouble(). kBroken: the peer has been told if that was possible. After kDone it does nothing.
  Io handshake();

  // kDone: 1 ... into.size() bytes (`into` is not empty).
  Transfer read(std::span<std::byte> into);
  // Whether bytes are here of which the descriptor does not tell any more.
  bool holds_input() const;

  // Makes one record of the first bytes of `from` (not empty), at most kRecordBytes. kWantRead, kWantWrite:
  // to be called again with the same bytes, which may lie elsewhere by then.
  Transfer write(std::span<const std::byte> from);

  // Tells the peer that no more comes, as far as the socket takes it now. Once.
  void shut_down();

  // Whether the peer has proven to be `host`: its certificate has that name (any case, no wildcards).
  bool peer_is(std::string_view host) const;
  // All the names in the peer's certificate, for a log line: DNS names, or the common name where there are
  // none. Empty: it showed no certificate.
  std::vector<std::string> peer_names() const;

  bool is_broken() const { return is_broken_; }
  // Why the handshake failed or the stream broke: one clause without a full stop. Empty before.
  const std::string& trouble() const { return trouble_; }

 private:
  struct Free {
    void operator()(ssl_st* ssl) const;
  };
  using OwnedSsl = std::unique_ptr<ssl_st, Free>;

  Stream(std::unique_ptr<Socket> socket, OwnedSsl ssl);

  Io verdict(int result);
  void note_trouble();
  static int on_verified(int fine, x509_store_ctx_st* context);
  static void on_message(int is_written, int version, int type, const void* bytes, std::size_t size,
                         ssl_st* ssl, void* self);

  std::unique_ptr<Socket> socket_;  // before ssl_: its BIO borrows it
  OwnedSsl ssl_;
  bool is_ready_ = false;
  bool is_broken_ = false;
  bool is_shut_down_ = false;
  bool is_retry_ = false;  // of the record that could not be sent in full
  std::uint64_t records_ = 0;
  std::uint64_t received_bytes_ = 0;
  std::uint64_t control_messages_ = 0;
  bool is_flooded_ = false;  // by messages of TLS itself
  std::string trouble_;
};

}  // namespace pvrdma::tls
