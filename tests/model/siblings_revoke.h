// SiblingsRevoke: a model for explore() of the messages of one connection in a ring between shards: their
// memory is lent, they are repeated, and they are revoked. It repeats the rules of src/transport/siblings and
// uses no code of it.
//
// The writer's guest has two messages for a QP of the reader's guest. The writer sends them in order, may
// repeat them because an answer is late, and may have to stop: then all loans end, the guest reuses the
// memory, and the connection repeats all unanswered messages. The reader executes message by message and
// answers. Its copy of a lent payload takes two steps. It may be hostile: then its guest may reset its QP and
// connect it again, so that it expects the first message once more; and it may answer messages that it has
// not executed.
//
// The slots are never used twice (RingTest shows that they can be), and room is not limited. A guest learns
// that a loan has ended by a store of the writer, which reaches memory after the earlier ones.
//
// Must hold: nothing is read when its loan has ended; what an honest reader executes is a prefix, so it sees
// no gap; and in the end everything is executed.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "explore.h"
#include "store_buffer.h"

namespace pvrdma::model {

enum class RevokeMutation : std::uint8_t {
  kNone,
  kOldestFirst,           // revokes the oldest message first
  kDoneBeforeTheCopy,     // the reader says that it is done before it has read all: done without release
  kStopWaitsForNoCopy,    // a stop returns although a slot is taken
  kRepetitionAtLentOnly,  // a message that is not lent begins no repetition
  kRoomBeforeNews,        // after a stop, there is room before the connection knows what was revoked
  kNoNews,                // the connection never learns that its messages were revoked
  kAnswersRevokeNothing,  // an answer ends a loan while a slot may still offer it
  kDropsWhenReset,        // the same, but a QP that is reset drops what it can see in the ring
};

struct RevokeBounds {
  std::array<bool, 2> lent{true, true};  // by message
  std::uint8_t repeats = 1;
  std::uint8_t stops = 1;
  std::uint8_t resets = 0;  // hostile
  std::uint8_t lies = 0;    // hostile
  RevokeMutation mutation = RevokeMutation::kNone;
};

class SiblingsRevoke {
 public:
  static constexpr std::uint8_t kMessages = 2;
  static constexpr std::uint8_t kSlots = 6;  // two messages, sent, repeated and sent again after a stop

  struct State {
    Memory memory;
    StoreBuffer writer;
    StoreBuffer reader;
    // The writer.
    std::array<std::uint8_t, kSlots> message{};  // in each slot, from 1
    std::uint8_t tail = 0;
    std::uint8_t doing = 0;
    std::uint8_t walk = 0;  // slots that the walk of a revoke has behind it
    std::uint8_t next = 1;  // the next message to send
    std::uint8_t last = 0;  // the last one sent; 0: none since the last revoke
    std::uint8_t last_lent = 0;
    std::uint8_t most = 0;       // the newest one ever sent
    std::uint8_t answered = 0;   // as the guest knows
    std::uint8_t answer = 0;     // that is being taken
    std::uint8_t is_held = 0;    // no room
    std::uint8_t closed_to = 0;  // slots that were sent before a stop that has returned
    std::uint8_t repeats = 0;
    std::uint8_t stops = 0;
    // The reader.
    std::uint8_t reading = 0;
    std::uint8_t at = 0;
    std::uint8_t expected = 1;
    std::uint8_t drops_to = 0;
    std::uint8_t resets = 0;
    std::uint8_t lies = 0;
    std::uint8_t gap = 0;
    std::array<std::uint8_t, 6> spare{};

    bool operator==(const State&) const = default;
  };
  using Steps = std::vector<Step<State>>;

  explicit SiblingsRevoke(const RevokeBounds& bounds) : bounds_(bounds) {}

  State start() const { return {}; }
  void steps(const State& state, Steps& out);
  const char* wrong(const State& state) const;
  const char* wrong_end(const State& state) const;

  // What happened somewhere in the exploration.
  struct Seen {
    bool revoked_lent = false;
    bool waited_for_copy = false;
    bool lost_at_the_exchange = false;
    bool executed_by_a_reset_qp = false;
  };
  const Seen& seen() const { return seen_; }

 private:
  bool is(RevokeMutation mutation) const { return bounds_.mutation == mutation; }
  bool is_lent(const State& state, std::uint8_t slot) const { return bounds_.lent[state.message[slot] - 1]; }
  bool is_hostile(const State& state) const { return state.resets != 0 || state.lies != 0; }
  void write(const State& state, Steps& out);
  void send(const State& state, Steps& out);
  void walk(const State& state, Steps& out);
  void end_walk(State& next) const;
  void read(const State& state, Steps& out);
  void take(const State& state, Steps& out);

  const RevokeBounds bounds_;
  Seen seen_;
};

}  // namespace pvrdma::model
