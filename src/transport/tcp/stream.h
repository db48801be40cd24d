// Stream: the bytes of one connection, plain (PlainStream) or inside TLS (TlsStream). Never blocks.
//
// The descriptor announces only bytes in the kernel. A TlsStream may hold further bytes. So a caller that
// stops reading before kWouldBlock must continue by itself, without waiting for the descriptor. Guest memory
// that has vanished (guestmem/sigbus.h) does not end a connection: it reads as zeros, and writes to it are
// dropped.
//
// Thread: shard-owned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <sys/uio.h>
#include <vector>

#include "guestmem/host_span.h"

namespace pvrdma::transport::tcp {

enum class Io : std::uint8_t {
  kDone,
  kWouldBlock,  // wait until the descriptor is readable, or also writable if wants_write()
  kClosed,      // the peer ended the stream in order; no more data comes
  kBroken,      // trouble() says why; the stream is unusable
};

struct Transfer {
  Io io{};
  std::size_t bytes = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;

  // Owned by the stream. Always wait for it to be readable; also for writable while the caller has bytes to
  // send or wants_write().
  virtual int fd() const = 0;

  enum class Handshake : std::uint8_t {
    kDone,
    kWantRead,
    kWantWrite,
    kFailed,  // trouble() says why; the peer was told if that was possible
    kCut,     // the peer ended the connection without telling why
  };
  // Continues the handshake as far as possible. Before kDone only fd(), wants_write() and trouble() may be
  // called besides. After kDone it does nothing. Plain: kDone at once.
  virtual Handshake handshake() = 0;

  // kDone: 1 ... into.size() bytes (`into` is not empty). Otherwise 0 bytes.
  virtual Transfer read_some(std::span<std::byte> into) = 0;

  // Whether `wanted` bytes (1 ... kReadyBytesMax) can be read now without blocking: kDone if so, otherwise
  // what read_some() would return after `bytes`. `bytes` is how many can be read now, perhaps more than
  // `wanted`. Plain: the kernel's receive buffer must be larger than `wanted`, or kDone never comes.
  static constexpr std::size_t kReadyBytesMax = 256 * 1024;
  virtual Transfer ready(std::size_t wanted) = 0;

  // Fills all of `into`, which is at most what ready() has promised. Returns how many bytes the stream has
  // advanced: fewer than into.bytes() if the promise was broken, which ends the stream.
  virtual std::size_t read_into(const guestmem::SpanList& into) = 0;

  // Takes bytes from the start of `pieces`, in order. The memory of these bytes may be freed when it returns.
  // kDone: it took `bytes` of them, at least 1 unless `pieces` is empty; kWouldBlock: it took none. Taken
  // bytes may still be unsent: see flush() and push().
  virtual Transfer write_some(std::span<const iovec> pieces) = 0;

  // Called when no write follows soon. The kernel sends bytes that it held back to fill a packet, and holds
  // nothing back until the next large write. Otherwise it would send them after 200 ms. TLS: nothing is held
  // back.
  virtual void push() = 0;

  // Whether bytes still have to go to the kernel. Then call handshake() (or after the handshake flush()) when
  // the descriptor is writable. Plain: never.
  virtual bool wants_write() const = 0;
  // kDone: all bytes are with the kernel. Otherwise kWouldBlock or kBroken.
  virtual Io flush() = 0;

  // Whether the peer's certificate has the name `host` (in any case, without wildcards). Plain: always true,
  // as nothing is proven.
  virtual bool peer_is(std::string_view host) const = 0;
  // All names in the peer's certificate, for a log line: its DNS names, or else the common name. Plain:
  // empty.
  virtual std::vector<std::string> peer_names() const = 0;

  // Why the handshake failed or the stream broke: one clause without a full stop. Empty while all is well.
  virtual std::string trouble() const = 0;
};

}  // namespace pvrdma::transport::tcp
