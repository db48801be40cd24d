// Payload: the bytes that come with a message, wherever they are now: in another guest's memory (local path)
// or in a connection's receive queue (host transports), from where they go straight into the receiving
// guest's memory.
//
// Thread: as the message; valid during the engine's on_*() call only.
#pragma once

#include <cstdint>

#include "guestmem/host_span.h"

namespace pvrdma::verbs {

// What became of bytes that were to be placed.
enum class Placed : std::uint8_t {
  kDone,
  kLost,   // as if the message had never arrived
  kLater,  // they are on their way: the same message is handed over again, once, when that has ended
};

class Payload {
 public:
  virtual ~Payload() = default;

  virtual std::uint64_t bytes() const = 0;

  // Fills `target`, which is at most bytes() long, from the payload's start. At most once. False: the bytes
  // did not come, or `target`'s memory is gone; part of `target` may have been written. Whoever gets false
  // acts as if the message had never arrived.
  [[nodiscard]] virtual bool copy_to(const guestmem::SpanList& target) = 0;

  // The same for a request's, or an answer's to a read, where they may come later. Until then `target` is the
  // path's to write, as a lent source is to read (path.h).
  [[nodiscard]] virtual Placed place(const guestmem::SpanList& target) {
    return copy_to(target) ? Placed::kDone : Placed::kLost;
  }
  // Whether the message is handed over again, after kLater. Then place() says how it has ended.
  virtual bool is_back() const { return false; }
  // Whether what the path has handed over of this connection before is still being placed. Such a message is
  // not due: all that may come of it is that place() is called, with kLater; without that it is handed over
  // once more, as if for the first time.
  virtual bool is_ahead() const { return false; }
};

// Bytes that are in memory.
class SpanPayload final : public Payload {
 public:
  SpanPayload() = default;  // nothing
  explicit SpanPayload(const guestmem::SpanList& spans) : spans_(&spans) {}

  std::uint64_t bytes() const override { return spans_ == nullptr ? 0 : spans_->bytes(); }
  bool copy_to(const guestmem::SpanList& target) override {
    if (spans_ != nullptr) guestmem::copy(target, *spans_, target.bytes());
    return true;
  }

 private:
  const guestmem::SpanList* spans_ = nullptr;  // borrowed
};

}  // namespace pvrdma::verbs
