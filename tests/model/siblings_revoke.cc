#include "siblings_revoke.h"

#include <algorithm>

#include "siblings_stores.h"

namespace pvrdma::model {
namespace {

using State = SiblingsRevoke::State;

// Addresses 1 ... kSlots are the states of the slots.
constexpr std::uint8_t kAnswer = SiblingsRevoke::kSlots + 1;     // the newest message that is answered
constexpr std::uint8_t kGuestTold = SiblingsRevoke::kSlots + 2;  // as the writer's guest knows

enum SlotIs : std::uint8_t { kEmpty, kOffered, kTaken, kDone, kRevoked };

enum Doing : std::uint8_t { kIdle, kRevokesToRepeat, kRevokesToStop, kRevokesAnswered, kTellsGuest };

enum Reading : std::uint8_t { kLooks, kHasSeen, kCopies, kAnswers };

std::uint8_t address(std::uint8_t slot) {
  return static_cast<std::uint8_t>(slot + 1);
}

}  // namespace

void SiblingsRevoke::steps(const State& state, Steps& out) {
  drain_stores(state, out);
  write(state, out);
  read(state, out);
}

void SiblingsRevoke::write(const State& state, Steps& out) {
  State next = state;
  if (state.doing == kTellsGuest) {
    if (!state.writer.has_room()) return;
    next.writer.store(kGuestTold, state.answer);
    next.answered = state.answer;
    next.next = std::max(state.next, static_cast<std::uint8_t>(state.answer + 1));
    next.answer = 0;
    next.doing = kIdle;
    out.push_back({next, "the writer's guest learns of an answer to message", state.answer});
    return;
  }
  if (state.doing != kIdle) return walk(state, out);

  const std::uint8_t answer = state.writer.load(kAnswer, state.memory);
  if (answer > state.answered && answer <= state.most) {
    next.answer = answer;
    next.walk = 0;
    const bool revokes = !is(RevokeMutation::kAnswersRevokeNothing) && !is(RevokeMutation::kDropsWhenReset);
    next.doing = revokes ? kRevokesAnswered : kTellsGuest;
    out.push_back({next, "the writer finds an answer to message", answer});
  }
  next = state;
  const bool has_unanswered = state.next > state.answered + 1;
  if (has_unanswered && state.repeats < bounds_.repeats) {
    ++next.repeats;
    next.next = static_cast<std::uint8_t>(state.answered + 1);
    out.push_back({next, "an answer is late: the writer repeats from message", next.next});
  }
  next = state;
  if (has_unanswered && state.stops < bounds_.stops) {
    ++next.stops;
    next.walk = 0;
    next.doing = kRevokesToStop;
    out.push_back({next, "the writer begins to stop", -1});
  }
  next = state;
  if (state.is_held != 0) {
    next.is_held = 0;
    if (!is(RevokeMutation::kNoNews)) next.next = static_cast<std::uint8_t>(state.answered + 1);
    out.push_back({next, "the connection learns what was revoked", -1});
  }
  send(state, out);
}

void SiblingsRevoke::send(const State& state, Steps& out) {
  if (state.next > kMessages || state.tail == kSlots) return;
  if (state.is_held != 0 && !is(RevokeMutation::kRoomBeforeNews)) return;
  State next = state;
  const bool lent = bounds_.lent[state.next - 1];
  const bool repeats = is(RevokeMutation::kRepetitionAtLentOnly) ? lent && state.next <= state.last_lent
                                                                 : state.next <= state.last;
  if (repeats) {
    next.walk = 0;
    next.doing = kRevokesToRepeat;
    out.push_back({next, "the writer sees a repetition at message", state.next});
    return;
  }
  if (!state.writer.has_room()) return;
  next.message[state.tail] = state.next;
  next.writer.store(address(state.tail), kOffered);
  ++next.tail;
  next.last = state.next;
  if (lent) next.last_lent = state.next;
  next.most = std::max(state.most, state.next);
  ++next.next;
  out.push_back({next, "the writer sends message", state.next});
}

void SiblingsRevoke::walk(const State& state, Steps& out) {
  State next = state;
  if (state.walk == state.tail) {
    end_walk(next);
    out.push_back({next, "the writer has revoked", -1});
    return;
  }
  ++next.walk;
  const auto slot =
      static_cast<std::uint8_t>(is(RevokeMutation::kOldestFirst) ? state.walk : state.tail - 1 - state.walk);
  const bool wanted =
      state.doing != kRevokesAnswered || (is_lent(state, slot) && state.message[slot] <= state.answer);
  if (!wanted) {
    out.push_back({next, "the writer leaves slot", slot});
  } else if (!is_lent(state, slot)) {
    if (!state.writer.has_room()) return;
    next.writer.store(address(slot), kRevoked);
    out.push_back({next, "the writer revokes the small message of slot", slot});
  } else if (state.writer.empty()) {  // a compare-exchange
    std::uint8_t& value = next.memory.values[address(slot)];
    if (value == kTaken && !is(RevokeMutation::kStopWaitsForNoCopy)) {
      seen_.waited_for_copy = true;
      return;
    }
    if (value == kOffered) {
      seen_.revoked_lent = true;
      value = kRevoked;
    }
    out.push_back({next, "the writer has dealt with the lent message of slot", slot});
  }
}

void SiblingsRevoke::end_walk(State& next) const {
  next.walk = 0;
  switch (next.doing) {
    case kRevokesToStop:
      next.closed_to = next.tail;
      next.is_held = 1;
      next.doing = kIdle;
      return;
    case kRevokesAnswered:
      next.doing = kTellsGuest;
      return;
    default:  // what is sent next begins a repetition
      next.last = next.last_lent = 0;
      next.doing = kIdle;
      return;
  }
}

void SiblingsRevoke::read(const State& state, Steps& out) {
  State next = state;
  switch (state.reading) {
    case kLooks: {
      if (state.resets < bounds_.resets) {
        ++next.resets;
        next.expected = 1;
        if (is(RevokeMutation::kDropsWhenReset)) {
          next.drops_to = state.at;
          while (next.drops_to < kSlots && state.reader.load(address(next.drops_to), state.memory) != kEmpty)
            ++next.drops_to;
        }
        out.push_back({next, "the reader's guest resets and connects its QP", -1});
        next = state;
      }
      if (state.lies < bounds_.lies && state.reader.has_room()) {
        ++next.lies;
        next.reader.store(kAnswer, kMessages);
        out.push_back({next, "the reader answers what it has not executed", -1});
        next = state;
      }
      if (state.at == kSlots) return;
      const std::uint8_t slot = state.reader.load(address(state.at), state.memory);
      if (slot == kRevoked) {
        ++next.at;
        out.push_back({next, "the reader passes the revoked slot", state.at});
      } else if (slot == kOffered) {
        next.reading = kHasSeen;
        out.push_back({next, "the reader sees slot", state.at});
      }
      return;
    }
    case kHasSeen:
      return take(state, out);
    case kCopies:
      if (!is(RevokeMutation::kDoneBeforeTheCopy)) {
        if (!state.reader.has_room()) return;
        next.reader.store(address(state.at), kDone);
      }
      ++next.expected;
      ++next.at;
      next.reading = kAnswers;
      out.push_back({next, "the reader has copied slot", state.at});
      return;
    case kAnswers:
      if (!state.reader.has_room()) return;
      next.reader.store(kAnswer, static_cast<std::uint8_t>(state.expected - 1));
      next.reading = kLooks;
      out.push_back({next, "the reader answers message", state.expected - 1});
      return;
    default:
      return;
  }
}

// The engine has looked at the message.
void SiblingsRevoke::take(const State& state, Steps& out) {
  State next = state;
  next.reading = kLooks;
  const std::uint8_t message = state.message[state.at];
  if (message != state.expected || state.at < state.drops_to) {
    ++next.at;
    if (message > state.expected && !is_hostile(state)) next.gap = 1;
    out.push_back({next, "the reader does not execute slot", state.at});
  } else if (!is_lent(state, state.at)) {
    ++next.at;
    ++next.expected;
    next.reading = kAnswers;
    out.push_back({next, "the reader executes the small message of slot", state.at});
  } else if (state.reader.empty()) {  // a compare-exchange
    std::uint8_t& slot = next.memory.values[address(state.at)];
    if (slot == kOffered) {
      slot = is(RevokeMutation::kDoneBeforeTheCopy) ? kDone : kTaken;
      if (state.resets != 0) seen_.executed_by_a_reset_qp = true;
      next.reading = kCopies;
      out.push_back({next, "the reader takes slot", state.at});
    } else {
      seen_.lost_at_the_exchange = true;
      ++next.at;
      out.push_back({next, "the reader cannot take slot", state.at});
    }
  }
}

const char* SiblingsRevoke::wrong(const State& state) const {
  if (state.gap != 0) return "an honest reader sees a gap";
  if (state.reading != kCopies) return nullptr;
  const bool is_stopped = state.at < state.closed_to;
  const bool is_answered = state.message[state.at] <= state.memory.values[kGuestTold];
  return is_stopped || is_answered ? "memory is read when its loan has ended" : nullptr;
}

const char* SiblingsRevoke::wrong_end(const State& state) const {
  if (is_hostile(state)) return nullptr;
  return state.expected == kMessages + 1 && state.answered == kMessages ? nullptr
                                                                        : "a message is never executed";
}

}  // namespace pvrdma::model
