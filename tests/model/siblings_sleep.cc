#include "siblings_sleep.h"

#include "siblings_stores.h"

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
  kRestored,
};

// What a thread does next.
enum Writing : std::uint8_t {
  kAsks,
  kSaysThatItWaits,
  kSends,
  kFlushes,
  kLooksWhetherItSleeps,
  kRings,
  kWritesBell,
  kTells,
  kWriterLiesDown,
  kWriterFences,
  kLooksForRoom,
  kWriterSleeps,
  kWriterGetsUp,
  kWriterReadsBell,
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
  kWritesWritersBell,
  kHears,
  kReaderLiesDown,
  kReaderFences,
  kLooksAgain,
  kReaderSleeps,
  kReaderGetsUp,
  kReaderReadsBell,
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
bool has_news(const State& state) {
  return state.reader.load(kRestored, state.memory) != state.was_told;
}

}  // namespace

void SiblingsSleep::steps(const State& state, Steps& out) {
  drain_stores(state, out);
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
        if (state.has_told == 0) return go(kTells, "the writer has sent all");
        if (state.unflushed != 0) go(kFlushes, "the writer has said all");
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
      if (state.memory.values[kReaderAsleep] == 0) return go(after_flush(state), "the reader is awake again");
      next.memory.values[kReaderAsleep] = 0;
      return go(kWritesBell, "the writer is to ring");
    case kWritesBell:
      next.memory.values[kReaderBell] = 1;
      ++next.reader_rings;
      return go(after_flush(state), "the writer rings");
    case kTells:
      if (!state.writer.has_room()) return;
      next.writer.store(kRestored, 1);
      next.has_told = 1;
      if (!is(SleepMutation::kRestoredRingsNobody)) next.unflushed = 1;
      return go(kAsks, "the writer says that it has revoked answers");
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
      if (state.writer_rings == 0)
        next.woken_in_vain = 1;
      else
        --next.writer_rings;
      return go(kWriterGetsUp, "the bell wakes the writer");
    case kWriterGetsUp:
      next.waits = 0;
      if (is(SleepMutation::kReadsTheBellIfRung)) {
        if (!state.writer.empty()) return;
        const bool rung = state.memory.values[kWriterAsleep] == 0;
        next.memory.values[kWriterAsleep] = 0;
        return go(rung ? kWriterReadsBell : kAsks, "the writer gets up");
      }
      if (!state.writer.has_room()) return;
      next.writer.store(kWriterAsleep, 0);
      return go(kWriterReadsBell, "the writer gets up");
    case kWriterReadsBell:
      next.memory.values[kWriterBell] = 0;
      return go(kAsks, "the writer empties its bell");
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
      if (has_news(state)) return go(kHears, "the reader finds that answers were revoked");
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
      if (state.memory.values[kWriterAsleep] == 0) return go(kLooks, "the writer is awake again");
      next.memory.values[kWriterAsleep] = 0;
      return go(kWritesWritersBell, "the reader is to ring");
    case kWritesWritersBell:
      next.memory.values[kWriterBell] = 1;
      ++next.writer_rings;
      return go(kLooks, "the reader rings");
    case kHears:
      next.was_told = 1;
      return go(kLooks, "the reader hears that answers were revoked");
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
      return has_message(state) || has_news(state)
                 ? go(kReaderGetsUp, "the reader does not sleep, because it finds something")
                 : go(kReaderSleeps, "the reader sleeps");
    case kReaderSleeps:
      if (state.memory.values[kReaderBell] == 0) return;
      seen_.reader_was_woken = true;
      if (state.reader_rings == 0)
        next.woken_in_vain = 1;
      else
        --next.reader_rings;
      return go(kReaderGetsUp, "the bell wakes the reader");
    case kReaderGetsUp:
      if (is(SleepMutation::kReadsTheBellIfRung)) {
        if (!state.reader.empty()) return;
        const bool rung = state.memory.values[kReaderAsleep] == 0;
        next.memory.values[kReaderAsleep] = 0;
        return go(rung ? kReaderReadsBell : kLooks, "the reader gets up");
      }
      if (!state.reader.has_room()) return;
      next.reader.store(kReaderAsleep, 0);
      return go(kReaderReadsBell, "the reader gets up");
    case kReaderReadsBell:
      next.memory.values[kReaderBell] = 0;
      return go(kLooks, "the reader empties its bell");
    default:
      return;
  }
}

const char* SiblingsSleep::wrong_end(const State& state) const {
  if (state.read != state.sent) return "the reader sleeps on a message";
  if (state.sent != kMessages) return "the writer waits for room that is there";
  if (state.was_told == 0) return "the reader sleeps on the news that answers were revoked";
  return nullptr;
}

}  // namespace pvrdma::model
