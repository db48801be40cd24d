// Stream: the bytes of one connection, plain (PlainStream) or inside TLS (TlsStream). Never blocks.
//
// The descriptor tells of what the kernel has. A TlsStream may hold bytes that the descriptor no longer tells
// of: whoever stops reading before kWouldBlock comes back by itself, without waiting for the descriptor.
// Guest memory that is gone (guestmem/sigbus.h) ends no connection: it reads as zeros, and what would be
// written there is dropped.
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
  kWouldBlock,  // wait for the descriptor: readable, or writable too if wants_write()
  kClosed,      // the peer ended the stream in order; nothing more comes
  kBroken,      // trouble() says why; the stream is of no more use
};

struct Transfer {
  Io io{};
  std::size_t bytes = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;

  // Owned by the stream. Wait for it to be readable always, and writable while the caller has bytes to send
  // or wants_write().
  virtual int fd() const = 0;

  enum class Handshake : std::uint8_t { kDone, kWantRead, kWantWrite, kFailed };
  // Goes on with the handshake as far as it gets; before kDone nothing else may be called but fd(),
  // wants_write() and trouble(). kFailed: trouble() says why; the peer has been told if that was possible.
  // After kDone it does nothing. Plain: kDone at once.
  virtual Handshake handshake() = 0;

  // kDone: 1 ... into.size() bytes (`into` is not empty). Otherwise 0 bytes.
  virtual Transfer read_some(std::span<std::byte> into) = 0;

  // Whether `wanted` bytes (1 ... kReadyBytesMax) can be read now without blocking: kDone if so, otherwise
  // what read_some() will say after `bytes`. `bytes`: how many can be read now, perhaps more than wanted.
  // Plain: the kernel's receive buffer must be larger than `wanted`, or it never comes to that.
  static constexpr std::size_t kReadyBytesMax = 256 * 1024;
  virtual Transfer ready(std::size_t wanted) = 0;

  // Fills all of `into`, which is no more than what ready() has promised. Returns how many bytes the stream
  // has moved on by: less than into.bytes() when the promise was broken, which ends the stream.
  virtual std::size_t read_into(const guestmem::SpanList& into) = 0;

  // Takes bytes from the start of `pieces`, in order; what it took may be gone from memory when it returns.
  // kDone: `bytes` of them, at least 1 if there were any; kWouldBlock: none. Taken is not sent: see flush()
  // and push().
  virtual Transfer write_some(std::span<const iovec> pieces) = 0;

  // Nothing more is written soon: what the kernel keeps back to fill a packet goes out, and until the next
  // large write it keeps nothing back. Without it that takes 200 ms. TLS: nothing is kept back.
  virtual void push() = 0;

  // Whether something is still to be handed to the kernel: then handshake(), or after it flush(), is due when
  // the descriptor is writable. Plain: never.
  virtual bool wants_write() const = 0;
  // kDone: nothing is left. Otherwise kWouldBlock or kBroken.
  virtual Io flush() = 0;

  // Whether the peer has proven to be `host`: its certificate has that name (any case, no wildcards). Plain:
  // nothing is proven and every name is fine.
  virtual bool peer_is(std::string_view host) const = 0;
  // All the names in the peer's certificate, for a log line: DNS names, or the common name where there are
  // none. Plain: none.
  virtual std::vector<std::string> peer_names() const = 0;

  // Why the handshake failed or the stream broke: one clause without a full stop. Empty before.
  virtual std::string trouble() const = 0;
};

}  // namespace pvrdma::transport::tcp
