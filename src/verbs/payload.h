// Payload: the bytes that come with a message, wherever they are now: in another guest's memory (local path)
// or in a connection's receive queue (host transports), from where they go straight into the receiving
// guest's memory.
//
// Thread: as the message; valid during the engine's on_*() call only.
#pragma once

#include <cstdint>

#include "guestmem/host_span.h"

namespace pvrdma::verbs {

class Payload {
 public:
  virtual ~Payload() = default;

  virtual std::uint64_t bytes() const = 0;

  // Fills `target`, which is at most bytes() long, from the payload's start. At most once. False: the bytes
  // did not come, or `target`'s memory is gone; part of `target` may have been written. Whoever gets false
  // acts as if the message had never arrived.
  [[nodiscard]] virtual bool copy_to(const guestmem::SpanList& target) = 0;
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
