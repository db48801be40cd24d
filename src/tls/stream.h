// Stream: one TLS connection over a socket. Never blocks, whatever the socket's mode, and raises no SIGPIPE.
//
// Its context decides which peers it trusts and which versions it speaks. Written data becomes records at
// once. After kRecordsPerKey records the key of our direction changes (TLS 1.3).
//
// After the handshake a peer can send messages of TLS itself: new keys, and in TLS 1.2 requests for new
// handshakes. Each costs the peer a few bytes and us much work, and OpenSSL handles all that have arrived in
// one call. So their number is bounded. The bound grows with the received data; beyond it the stream breaks.
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

// Far below the 2^24.5 full records that AES-GCM allows (RFC 8446, 5.5). It is at most 1 GiB of data.
inline constexpr std::uint64_t kRecordsPerKey = 65536;

// A peer may send kControlMessages messages of TLS itself after the handshake, and one more for each
// kBytesPerControlMessage bytes of data. Our own streams change the key after kRecordsPerKey records, each
// larger than 16 bytes.
inline constexpr std::uint64_t kControlMessages = 16;
inline constexpr std::uint64_t kBytesPerControlMessage = 1024 * 1024;

enum class Role : std::uint8_t { kClient, kServer };

enum class Io : std::uint8_t {
  kDone,
  kWantRead,   // call again when the descriptor is readable
  kWantWrite,  // call again when it is writable
  kClosed,     // the peer ended the stream in order; no more data comes
  kBroken,     // trouble() says why; the stream is unusable
};

struct Transfer {
  Io io{};
  std::size_t bytes = 0;  // not 0 only with kDone
};

struct Socket;  // in stream.cc

class Stream {
 public:
  // `socket` is a connected stream socket. `context` may be freed before the stream. Error: out of memory.
  static Result<std::unique_ptr<Stream>> create(Fd socket, ssl_ctx_st& context, Role role);
  ~Stream();  // calls shut_down()
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  int fd() const;

  // Continues the handshake as far as possible. Before kDone only fd() and trouble() may be called besides.
  // kBroken: the peer was told if that was possible. After kDone it does nothing.
  Io handshake();

  // kDone: it has read 1 ... into.size() bytes. `into` is not empty.
  Transfer read(std::span<std::byte> into);
  // Whether received bytes are left that the descriptor no longer announces.
  bool holds_input() const;

  // Makes one record of the first bytes of `from` (not empty), at most kRecordBytes. After kWantRead or
  // kWantWrite, call it again with the same bytes, which may be at another address then.
  Transfer write(std::span<const std::byte> from);

  // Tells the peer that the stream ends, if the socket takes the message now. Call it once.
  void shut_down();

  // Whether the peer's certificate has the name `host` (in any case, without wildcards).
  bool peer_is(std::string_view host) const;
  // All names in the peer's certificate, for a log line: its DNS names, or else the common name. Empty if the
  // peer presented no certificate.
  std::vector<std::string> peer_names() const;

  bool is_broken() const { return is_broken_; }
  // It is broken because the peer ended the connection without telling why.
  bool is_cut() const { return is_cut_; }
  // Why the handshake failed or the stream broke: one clause without a full stop. Empty while all is well.
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

  std::unique_ptr<Socket> socket_;  // must precede ssl_, whose BIO borrows it
  OwnedSsl ssl_;
  bool is_ready_ = false;
  bool is_broken_ = false;
  bool is_cut_ = false;
  bool is_shut_down_ = false;
  bool is_retry_ = false;  // the record could not be sent in full and is tried again
  std::uint64_t records_ = 0;
  std::uint64_t received_bytes_ = 0;
  std::uint64_t control_messages_ = 0;
  bool is_flooded_ = false;  // the peer sent too many messages of TLS itself
  std::string trouble_;
};

}  // namespace pvrdma::tls
