// ArrivedBytes: the bytes of a message that has arrived completely, or of a torn message, whose rest never
// comes. Thread: the world's.
#pragma once

#include "guestmem/host_span.h"
#include "verbs/payload.h"

namespace pvrdma::sim {

class ArrivedBytes final : public verbs::Payload {
 public:
  // `bytes` is borrowed. `torn`: only half of the bytes come.
  ArrivedBytes(const guestmem::SpanList& bytes, bool torn) : bytes_(bytes), torn_(torn) {}

  std::uint64_t bytes() const override { return bytes_.bytes(); }
  bool copy_to(const guestmem::SpanList& target) override {
    guestmem::copy(target, bytes_, torn_ ? target.bytes() / 2 : target.bytes());
    return !torn_;
  }

 private:
  const guestmem::SpanList& bytes_;
  bool torn_;
};

}  // namespace pvrdma::sim
