// Messages of peers while a shard finds out who makes its turns long (base/blame.h). Taking them is a piece
// of the receiving adapter's work. The bytes come from memory of the sender, which has the piece around it,
// or of nobody here, if they have come from elsewhere.
#include <array>

#include "verbs/engine_impl.h"

namespace pvrdma::verbs {
namespace {

// Before a copy it touches the memory of both ends, each in a piece of its owner. The copy itself belongs to
// nobody: it may sleep in the memory of either.
class TimedPayload final : public Payload {
 public:
  // All are borrowed.
  TimedPayload(Payload& payload, Blame& blame, Blame::Party* sender)
      : payload_(payload), blame_(blame), sender_(sender) {}

  std::uint64_t bytes() const override { return payload_.bytes(); }
  bool copy_to(const guestmem::SpanList& target) override {
    touch_both(target);
    const Blame::Piece nobodys(blame_, nullptr);
    return payload_.copy_to(target);
  }
  Placed place(const guestmem::SpanList& target) override {
    touch_both(target);
    const Blame::Piece nobodys(blame_, nullptr);
    return payload_.place(target);
  }
  bool is_back() const override { return payload_.is_back(); }
  bool is_ahead() const override { return payload_.is_ahead(); }

 private:
  void touch_both(const guestmem::SpanList& target) {
    {
      const Blame::Piece senders(blame_, sender_);
      payload_.touch();
    }
    guestmem::touch_for_writing(target);
  }

  Payload& payload_;
  Blame& blame_;
  Blame::Party* const sender_;
};

}  // namespace

template <typename Message>
void Engine::take_timed(const Message& message, Payload& payload, Instant now) {
  const Blame::Piece piece(party_->blame(), party_);
  TimedPayload timed(payload, party_->blame(), piece.outer_party());
  take(message, timed, now);
}
template void Engine::take_timed(const Request& message, Payload& payload, Instant now);
template void Engine::take_timed(const Response& message, Payload& payload, Instant now);

// The engine gets a copy of the payload, which it can only read without delay.
void Engine::take_timed(const Datagram& datagram, const guestmem::SpanList& payload, Instant now) {
  std::array<std::byte, abi::mtu_bytes(abi::Mtu::k4096)> bytes;
  guestmem::SpanList copy;
  static_cast<void>(copy.append(bytes.data(), std::min<std::size_t>(payload.bytes(), bytes.size())));
  guestmem::copy(copy, payload, copy.bytes());
  const Blame::Piece piece(party_->blame(), party_);
  take(datagram, copy, now);
}

}  // namespace pvrdma::verbs
