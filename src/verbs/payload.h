// Payload: the bytes that accompany a message, wherever they are now: in another guest's memory (local path)
// or in a connection's receive queue (host transports). From there they go straight into the receiving
// guest's memory.
//
// Thread: as the message; valid only during the engine's on_*() call.
#pragma once

#include <cstdint>

#include "guestmem/host_span.h"

namespace pvrdma::verbs {

// The result of placing bytes.
enum class Placed : std::uint8_t {
  kDone,
  kLost,   // treat the message as if it had never arrived
  kLater,  // the bytes are still arriving: the path hands the same message over once more when that has ended
};

class Payload {
 public:
  virtual ~Payload() = default;

  virtual std::uint64_t bytes() const = 0;

  // Fills `target`, which is at most bytes() long, from the payload's start. Call it at most once. Returns
  // false if the bytes did not arrive or `target`'s memory is gone; part of `target` may then have been
  // written. The caller then acts as if the message had never arrived.
  [[nodiscard]] virtual bool copy_to(const guestmem::SpanList& target) = 0;

  // Touches each page of guest memory of this shard's adapters from which copy_to() would copy.
  virtual void touch() const {}

  // Like copy_to(), for a request or a read answer whose bytes may arrive later. Until then the path may
  // write to `target`, just as it may read a lent source (path.h).
  [[nodiscard]] virtual Placed place(const guestmem::SpanList& target) {
    return copy_to(target) ? Placed::kDone : Placed::kLost;
  }
  // Whether the message is handed over again after kLater. place() then returns how the placing ended.
  virtual bool is_back() const { return false; }
  // Whether earlier messages of this connection from the same path are still being placed. Such a message is
  // not due yet. The engine may only call place() for it, with result kLater; otherwise the path hands it
  // over again later, as if for the first time.
  virtual bool is_ahead() const { return false; }
};

// A payload that lies in memory.
class SpanPayload final : public Payload {
 public:
  SpanPayload() = default;  // an empty payload
  explicit SpanPayload(const guestmem::SpanList& spans) : spans_(&spans) {}

  std::uint64_t bytes() const override { return spans_ == nullptr ? 0 : spans_->bytes(); }
  bool copy_to(const guestmem::SpanList& target) override {
    if (spans_ != nullptr) guestmem::copy(target, *spans_, target.bytes());
    return true;
  }
  void touch() const override {
    if (spans_ != nullptr) guestmem::touch_for_reading(*spans_);
  }

 private:
  const guestmem::SpanList* spans_ = nullptr;  // borrowed
};

}  // namespace pvrdma::verbs
