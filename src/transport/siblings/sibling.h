// Sibling: one shard's ends of the rings to and from another shard of the host, and what this shard owes it
// and its own adapters: news of messages that were revoked.
//
// A message that is revoked is sent again. Its connection must know of that before it sends anything newer,
// for otherwise its peer sees a gap. So nothing has room between a revoke and announce(), which the shard's
// next turn calls on an empty stack.
//
// Thread: shard-owned.
#pragma once

#include <array>
#include <cstdint>

#include "transport/siblings/host_rings.h"
#include "transport/siblings/ring_reader.h"
#include "transport/siblings/ring_writer.h"
#include "transport/transport.h"
#include "verbs/engine.h"

namespace pvrdma::transport::siblings {

// What one adapter has in the rings to one sibling.
struct AdapterShare : RingWriter::Share {
  verbs::Engine* engine = nullptr;  // borrowed
};

class Sibling {
 public:
  Sibling(const HostRings& rings, ShardNumber own, ShardNumber other);
  Sibling(const Sibling&) = delete;
  Sibling& operator=(const Sibling&) = delete;

  // Takes back all messages that `is_one` (RingWriter::Sent, Slot) picks. When it returns, the sibling reads
  // no memory that they lend.
  template <typename IsOne>
  void revoke(IsOne is_one);
  // The requests that the sibling says it has executed: what still lies in the ring must not be executed
  // again, because the guest reuses the memory. Called before the engine has the answer, which was admitted.
  void revoke_answered(SegmentId segment, const verbs::Response& answer);
  // The requests of a path that begins to repeat them.
  void revoke_repeated(const void* path);

  // Has what was revoked sent again. Returns false if nothing was revoked. On an empty stack.
  bool announce(SiblingInbound& inbound, Instant now);
  bool owes_news() const { return is_held_; }
  // The adapter ends. Its messages were revoked before.
  void forget(const AdapterShare& share);

  // Rings the sibling's bell if it sleeps and something was sent to it.
  void flush();

  const ShardNumber number;
  RingWriter requests;
  RingWriter answers;
  RingReader requests_in;
  RingReader answers_in;
  Way& way_in;
  bool has_room_again = false;  // for requests; the adapters that waited do not know yet
  // Answers were revoked, so this shard's requests are repeated: at most once in a millisecond, because the
  // other shard's guests can cause it.
  bool wants_repetition = false;
  Instant repeated_at{};

 private:
  static constexpr std::uint32_t kNamedMax = 64;

  struct Named {
    verbs::Engine* engine = nullptr;
    verbs::Connection connection;
  };
  void note(const RingWriter::Sent& sent, const verbs::Request& request);

  Bell& bell_;  // of the sibling
  bool is_held_ = false;
  std::uint32_t named_count_ = 0;
  bool has_more_ = false;  // than are named
  std::array<Named, kNamedMax> named_;
};

template <typename IsOne>
void Sibling::revoke(IsOne is_one) {
  requests.revoke(is_one, [this](const RingWriter::Sent& sent, const Slot& slot) {
    if (slot.kind == MessageKind::kRequest) note(sent, slot.message.request);
  });
  bool any_answer = false;
  answers.revoke(is_one, [&](const RingWriter::Sent&, const Slot&) { any_answer = true; });
  if (any_answer) answers.tell_restored();
}

}  // namespace pvrdma::transport::siblings
