// SiblingsSleep: a model for explore() of how the two ends of a ring between shards wait for each other: the
// reader for messages, the writer for room. It repeats the rules of src/transport/siblings (bell.h,
// RingWriter::has_room(), RingReader::publish()) and uses no code of it.
//
// The ring has two slots, and the writer has four messages. Both ends sleep whenever they find nothing to do.
// Nobody wakes them but the other end, so a sequence ends only when both sleep or have finished. Then all
// messages must be read, and no writer may wait while there is room. The last that the writer says is that it
// has revoked answers, which is no message. To ring and to get up are two steps each, so a bell may be
// written late. It must not wake its sleeper more often than it was written.
//
// The reader may say how far it has read after each message, or later.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "explore.h"
#include "store_buffer.h"

namespace pvrdma::model {

enum class SleepMutation : std::uint8_t {
  kNone,
  kNoFenceBeforeBell,     // the writer looks whether the reader sleeps without a fence after its messages
  kNoFenceInLieDown,      // the sleeper looks once more before the others see that it sleeps
  kNoSecondLook,          // the reader sleeps without looking once more
  kNoLookAtRoom,          // the writer that waits for room sleeps without looking once more
  kNoFenceAfterHead,      // the reader looks whether the writer waits without a fence after the head
  kKeepsTheLastHead,      // the reader sleeps before it has said how far it has read
  kReadsTheBellIfRung,    // a sleeper that wakes leaves the bell alone if no other has exchanged its word
  kRestoredRingsNobody,   // the writer says that answers were revoked, and does not flush
  kReaderForgetsTheWait,  // clears what the writer says, by an exchange, and not the writer itself
};

class SiblingsSleep {
 public:
  struct State {
    Memory memory;
    StoreBuffer writer;
    StoreBuffer reader;
    std::uint8_t writing = 0;  // Writing
    std::uint8_t sent = 0;
    std::uint8_t waits = 0;      // for room
    std::uint8_t unflushed = 0;  // sent something since it last rang
    std::uint8_t reading = 0;    // Reading
    std::uint8_t read = 0;
    std::uint8_t said = 0;      // how far the reader says that it has read
    std::uint8_t has_told = 0;  // that answers were revoked, after its last message
    std::uint8_t was_told = 0;
    std::uint8_t writer_rings = 0;  // how often its bell was written, without the times that it woke
    std::uint8_t reader_rings = 0;
    std::uint8_t woken_in_vain = 0;  // more often than its bell was written
    std::array<std::uint8_t, 4> spare{};

    bool operator==(const State&) const = default;
  };
  using Steps = std::vector<Step<State>>;

  explicit SiblingsSleep(SleepMutation mutation) : mutation_(mutation) {}

  State start() const { return {}; }
  void steps(const State& state, Steps& out);
  const char* wrong(const State& state) const {
    return state.woken_in_vain != 0 ? "a bell wakes more often than it was rung" : nullptr;
  }
  const char* wrong_end(const State& state) const;

  // What happened somewhere in the exploration.
  struct Seen {
    bool writer_was_woken = false;
    bool reader_was_woken = false;
  };
  const Seen& seen() const { return seen_; }

 private:
  bool is(SleepMutation mutation) const { return mutation_ == mutation; }
  void write(const State& state, Steps& out);
  void write_asleep(const State& state, Steps& out);
  void read(const State& state, Steps& out);
  void read_asleep(const State& state, Steps& out);

  const SleepMutation mutation_;
  Seen seen_;
};

}  // namespace pvrdma::model
