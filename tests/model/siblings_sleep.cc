#include "siblings_sleep.h"

namespace pvrdma::model {
namespace {

constexpr std::uint8_t kMessages = 4;
constexpr std::uint8_t kSlots = 2;

enum Address : std::uint8_t {
  kSlot0 = 1,  // the last message in it, counted from 1
  kSlot1,
  kHead,
  kWaits,
  kReaderAsleep,
  kWriterAsleep,
  kReaderBell,
  kWriterBell,
};

// What a thread does next.
enum Writing : std::uint8_t {
  kAsks,
  kSaysThatItWaits,
  kSends,
  kFlushes,
  kLooksWhetherItSleeps,
  kRings,
  kWriterLiesDown,
  kWriterFences,
  kLooksForRoom,
  kWriterSleeps,
  kWriterGetsUp,
};
enum Reading : std::uint8_t {
  kLooks,
  kPasses,
  kSaysHead,
  kFencesForWaits,
  kLooksWhetherItWaits,
  kForgets,
  kLooksWhetherWriterSleeps,
  kRingsWriter,
  kReaderLiesDown,
  kReaderFences,
  kLooksAgain,
  kReaderSleeps,
  kReaderGetsUp,
};

using State = SiblingsSleep::State;

std::uint8_t slot_of(std::uint8_t message) {
  return static_cast<std::uint8_t>(kSlot0 + message % kSlots);
}
bool has_room(const State& state) {
  return state.sent - state.writer.load(kHead, state.memory) < kSlots;
}
bool has_message(const State& state) {
  return state.reader.load(slot_of(state.read), state.memory) == state.read + 1;
}
Writing after_flush(const State& state) {
  return state.waits != 0 ? kWriterLiesDown : kAsks;
}
// A locked exchange; the caller's buffer is empty.
void ring(Memory& memory, Address asleep, Address bell) {
  if (memory.values[asleep] == 0) return;
  memory.values[asleep] = 0;
  memory.values[bell] = 1;
}
void get_up(Memory& memory, Address asleep, Address bell) {
  if (memory.values[asleep] == 0) memory.values[bell] = 0;
  memory.values[asleep] = 0;
}

}  // namespace

void SiblingsSleep::steps(const State& state, Steps& out) {
  if (!state.writer.empty()) {
    State next = state;
    next.writer.drain_one(next.memory);
    out.push_back({next, "a store of the writer reaches memory", -1});
  }
  if (!state.reader.empty()) {
    State next = state;
    next.reader.drain_one(next.memory);
    out.push_back({next, "a store of the reader reaches memory", -1});
  }
  if (state.writing >= kWriterLiesDown)
    write_asleep(state, out);
  else
    write(state, out);
  if (state.reading >= kReaderLiesDown)
    read_asleep(state, out);
  else
    read(state, out);
}

void SiblingsSleep::write(const State& state, Steps& out) {
  State next = state;
  const auto go = [&](Writing to, const char* what) {
    next.writing = to;
    out.push_back({next, what, -1});
  };
  switch (state.writing) {
    case kAsks:
      if (state.sent == kMessages) {
        if (state.unflushed != 0) go(kFlushes, "the writer has sent all");
        return;
      }
      if (!has_room(state)) return go(kSaysThatItWaits, "the writer finds no room");
      if (state.writer.load(kWaits, state.memory) != 0 && !is(SleepMutation::kReaderForgetsTheWait)) {
        if (!state.writer.has_room()) return;
        next.writer.store(kWaits, 0);
      }
      return go(kSends, "the writer finds room");
    case kSaysThatItWaits:
      if (!state.writer.has_room()) return;
      next.writer.store(kWaits, 1);
      next.waits = 1;
      return go(kFlushes, "the writer says that it waits");
    case kSends:
      if (!state.writer.has_room()) return;
      next.writer.store(slot_of(state.sent), static_cast<std::uint8_t>(state.sent + 1));
      ++next.sent;
      next.unflushed = 1;
      go(kAsks, "the writer sends and goes on");
      return go(kFlushes, "the writer sends and flushes");
    case kFlushes:
      if (state.unflushed == 0) return go(after_flush(state), "the writer has nothing to flush");
      if (!state.writer.empty() && !is(SleepMutation::kNoFenceBeforeBell)) return;
      next.unflushed = 0;
      return go(kLooksWhetherItSleeps, "the writer fences before it looks at the bell");
    case kLooksWhetherItSleeps:
      return state.writer.load(kReaderAsleep, state.memory) != 0
                 ? go(kRings, "the writer finds the reader asleep")
                 : go(after_flush(state), "the writer finds the reader awake");
    case kRings:
      if (!state.writer.empty()) return;
      ring(next.memory, kReaderAsleep, kReaderBell);
      return go(after_flush(state), "the writer rings");
    default:
      return;
  }
}

void SiblingsSleep::write_asleep(const State& state, Steps& out) {
  State next = state;
  const auto go = [&](Writing to, const char* what) {
    next.writing = to;
    out.push_back({next, what, -1});
  };
  switch (state.writing) {
    case kWriterLiesDown:
      if (!state.writer.has_room()) return;
      next.writer.store(kWriterAsleep, 1);
      return go(kWriterFences, "the writer lies down");
    case kWriterFences:
      if (state.writer.empty() || is(SleepMutation::kNoFenceInLieDown))
        go(is(SleepMutation::kNoLookAtRoom) ? kWriterSleeps : kLooksForRoom, "the writer fences");
      return;
    case kLooksForRoom:
      return has_room(state) ? go(kWriterGetsUp, "the writer does not sleep, because it finds room")
                             : go(kWriterSleeps, "the writer sleeps");
    case kWriterSleeps:
      if (state.memory.values[kWriterBell] == 0) return;
      seen_.writer_was_woken = true;
      return go(kWriterGetsUp, "the bell wakes the writer");
    case kWriterGetsUp:
      if (!state.writer.empty()) return;
      get_up(next.memory, kWriterAsleep, kWriterBell);
      next.waits = 0;
      return go(kAsks, "the writer gets up");
    default:
      return;
  }
}

void SiblingsSleep::read(const State& state, Steps& out) {
  State next = state;
  const auto go = [&](Reading to, const char* what) {
    next.reading = to;
    out.push_back({next, what, -1});
  };
  switch (state.reading) {
    case kLooks:
      if (has_message(state)) return go(kPasses, "the reader finds a message");
      if (state.said != state.read && !is(SleepMutation::kKeepsTheLastHead))
        return go(kSaysHead, "the reader finds nothing, and has something to say");
      return go(kReaderLiesDown, "the reader finds nothing");
    case kPasses:
      ++next.read;
      go(kLooks, "the reader reads and goes on");
      return go(kSaysHead, "the reader reads");
    case kSaysHead:
      if (!state.reader.has_room()) return;
      next.reader.store(kHead, state.read);
      next.said = state.read;
      return go(kFencesForWaits, "the reader says how far it has read");
    case kFencesForWaits:
      if (state.reader.empty() || is(SleepMutation::kNoFenceAfterHead))
        go(kLooksWhetherItWaits, "the reader fences");
      return;
    case kLooksWhetherItWaits:
      if (state.reader.load(kWaits, state.memory) == 0)
        return go(kLooks, "the reader finds that the writer does not wait");
      return go(is(SleepMutation::kReaderForgetsTheWait) ? kForgets : kLooksWhetherWriterSleeps,
                "the reader finds the writer waiting");
    case kForgets:
      if (!state.reader.empty()) return;
      next.memory.values[kWaits] = 0;
      return go(kLooksWhetherWriterSleeps, "the reader forgets that the writer waits");
    case kLooksWhetherWriterSleeps:
      return state.reader.load(kWriterAsleep, state.memory) != 0
                 ? go(kRingsWriter, "the reader finds the writer asleep")
                 : go(kLooks, "the reader finds the writer awake");
    case kRingsWriter:
      if (!state.reader.empty()) return;
      ring(next.memory, kWriterAsleep, kWriterBell);
      return go(kLooks, "the reader rings");
    default:
      return;
  }
}

void SiblingsSleep::read_asleep(const State& state, Steps& out) {
  State next = state;
  const auto go = [&](Reading to, const char* what) {
    next.reading = to;
    out.push_back({next, what, -1});
  };
  switch (state.reading) {
    case kReaderLiesDown:
      if (!state.reader.has_room()) return;
      next.reader.store(kReaderAsleep, 1);
      return go(kReaderFences, "the reader lies down");
    case kReaderFences:
      if (state.reader.empty() || is(SleepMutation::kNoFenceInLieDown))
        go(is(SleepMutation::kNoSecondLook) ? kReaderSleeps : kLooksAgain, "the reader fences");
      return;
    case kLooksAgain:
      return has_message(state) ? go(kReaderGetsUp, "the reader does not sleep, because it finds a message")
                                : go(kReaderSleeps, "the reader sleeps");
    case kReaderSleeps:
      if (state.memory.values[kReaderBell] == 0) return;
      seen_.reader_was_woken = true;
      return go(kReaderGetsUp, "the bell wakes the reader");
    case kReaderGetsUp:
      if (!state.reader.empty()) return;
      get_up(next.memory, kReaderAsleep, kReaderBell);
      return go(kLooks, "the reader gets up");
    default:
      return;
  }
}

const char* SiblingsSleep::wrong_end(const State& state) const {
  if (state.read != state.sent) return "the reader sleeps on a message";
  if (state.sent != kMessages) return "the writer waits for room that is there";
  return nullptr;
}

}  // namespace pvrdma::model
