#include "doorbells.h"

#include <algorithm>
#include <utility>

namespace pvrdma::model {
namespace {

// Where things are in memory.
constexpr std::uint8_t kCqWord = 1;
constexpr std::uint8_t kQpWord = 2;
constexpr std::uint8_t producer_of(std::uint8_t cq) {
  return static_cast<std::uint8_t>(3 + cq);
}
constexpr std::uint8_t consumer_of(std::uint8_t cq) {
  return static_cast<std::uint8_t>(3 + kCqs + cq);
}
constexpr std::uint8_t sends_of(std::uint8_t qp) {
  return static_cast<std::uint8_t>(3 + 2 * kCqs + qp);
}

// What the words hold.
constexpr std::uint8_t kArm = 8;
constexpr std::uint8_t kPoll = 4;
constexpr std::uint8_t doorbell(std::uint8_t action, std::uint8_t cq) {
  return static_cast<std::uint8_t>(action | cq);
}
constexpr std::uint8_t kSend = 4;

using State = Doorbells::State;
using Sleeper = Doorbells::Sleeper;

constexpr std::uint8_t kIndex = 3;  // the bits of a word that say of which CQ or QP

}  // namespace

State Doorbells::start() const {
  State state;
  for (std::size_t cq = 0; cq < kCqs; ++cq) state.cqs[cq].to_come = bounds_.messages[cq];
  return state;
}

void Doorbells::steps(const State& state, Steps& out) {
  drains(state, out);
  for (std::uint8_t cq = 0; cq < bounds_.sleepers; ++cq) sleeper_steps(state, cq, out);
  for (std::uint8_t poster = 0; poster < kPosters; ++poster) poster_step(state, poster, out);
  daemon_steps(state, out);
}

const char* Doorbells::wrong(const State& state) const {
  const bool too_many =
      std::any_of(state.cqs.begin(), state.cqs.end(), [](const Cq& cq) { return cq.needless > 1; });
  return too_many ? "two needless events in one epoch" : nullptr;
}

const char* Doorbells::wrong_end(const State& state) const {
  for (std::uint8_t qp = 0; qp < kQps; ++qp) {
    if (state.executed[qp] != state.memory.values[sends_of(qp)]) return "posted work is never executed";
  }
  for (std::uint8_t cq = 0; cq < bounds_.sleepers; ++cq) {
    if (state.memory.values[producer_of(cq)] != state.memory.values[consumer_of(cq)])
      return "a guest sleeps on a completion";
    if (state.sleepers[cq].doing != Sleeper::kSleeps || state.cqs[cq].to_come != 0)
      return "somebody is stuck";
  }
  return nullptr;
}

// The oldest store of any thread reaches memory.
void Doorbells::drains(const State& state, Steps& out) const {
  for (std::uint8_t cq = 0; cq < bounds_.sleepers; ++cq) {
    if (state.sleepers[cq].buffer.empty()) continue;
    State next = state;
    next.sleepers[cq].buffer.drain_one(next.memory);
    out.push_back({next, "a store reaches memory: of sleeper", cq});
  }
  for (std::uint8_t poster = 0; poster < kPosters; ++poster) {
    if (state.posters[poster].buffer.empty()) continue;
    State next = state;
    next.posters[poster].buffer.drain_one(next.memory);
    out.push_back({next, "a store reaches memory: of poster", poster});
  }
  if (!state.daemon.empty()) {
    State next = state;
    next.daemon.drain_one(next.memory);
    out.push_back({next, "a store reaches memory: of the daemon", -1});
  }
}

// Each step is one load and what follows of it, up to the next load.
void Doorbells::sleeper_steps(const State& state, std::uint8_t cq, Steps& out) const {
  State next = state;
  Sleeper& sleeper = next.sleepers[cq];
  const auto doing = static_cast<decltype(Sleeper::kTakes)>(sleeper.doing);
  if (doing == Sleeper::kSleeps) {
    if (sleeper.event == 0) return;
    sleeper.event = 0;
    sleeper.doing = Sleeper::kTakes;
    out.push_back({next, "an event wakes sleeper", cq});
    return;
  }
  if (!sleeper.buffer.has_room()) return;
  const auto write_arm = [&] {
    sleeper.buffer.store(kCqWord, doorbell(kArm, cq));
    sleeper.armed = 1;
    sleeper.doing = Sleeper::kLooks;
  };
  const auto write_poll = [&] {
    sleeper.buffer.store(kCqWord, doorbell(kPoll, cq));
    sleeper.doing = doing == Sleeper::kTakes ? Sleeper::kTakesAgain : Sleeper::kLooksAgain;
  };
  if (doing == Sleeper::kTakes && bounds_.consumer == Consumer::kArmPoll) {
    write_arm();
    out.push_back({next, "ARM is written by sleeper", cq});
    return;
  }
  if (sleeper.buffer.load(producer_of(cq), state.memory) != sleeper.taken) {
    ++sleeper.taken;
    sleeper.buffer.store(consumer_of(cq), sleeper.taken);
    sleeper.doing = bounds_.consumer == Consumer::kArmPoll ? Sleeper::kLooks : Sleeper::kTakes;
    if (bounds_.consumer == Consumer::kKernelPolled) sleeper.event = 0;
    out.push_back({next, "a completion is taken by sleeper", cq});
    return;
  }
  switch (doing) {
    case Sleeper::kTakes:
      bounds_.polls_write ? write_poll() : write_arm();
      out.push_back({next, "nothing is found, and a doorbell written, by sleeper", cq});
      return;
    case Sleeper::kTakesAgain:
      write_arm();
      out.push_back({next, "nothing is found again, and ARM written, by sleeper", cq});
      return;
    case Sleeper::kLooks:
      if (bounds_.polls_write) {
        write_poll();
        out.push_back({next, "nothing is found after ARM, and POLL written, by sleeper", cq});
        return;
      }
      [[fallthrough]];
    case Sleeper::kLooksAgain:
      sleeper.doing = Sleeper::kSleeps;
      out.push_back({next, "nothing is found after ARM, and falls asleep: sleeper", cq});
      return;
    case Sleeper::kSleeps:
      return;
  }
}

void Doorbells::poster_step(const State& state, std::uint8_t poster, Steps& out) const {
  const std::vector<std::uint8_t>& list = bounds_.posts[poster];
  State next = state;
  Poster& self = next.posters[poster];
  if (self.posted == list.size() || !self.buffer.has_room(2)) return;
  const std::uint8_t qp = list[self.posted];
  ++self.posted;
  const auto sends = std::count(list.begin(), list.begin() + self.posted, qp);
  self.buffer.store(sends_of(qp), static_cast<std::uint8_t>(sends));
  self.buffer.store(kQpWord, doorbell(kSend, qp));
  out.push_back({next, "work is posted to QP", qp});
}

void Doorbells::daemon_steps(const State& state, Steps& out) {
  if (state.firing != kNobody) {
    raise_event(state, out);
  } else if (state.doing == State::kTakesWords) {
    take_words(state, out);
  } else if (state.doing == State::kArms) {
    arm(state, out);
  } else {
    look(state, out);
    scan(state, out);
    for (std::uint8_t qp = 0; qp < kQps; ++qp) run_qp(state, qp, out);
    for (std::uint8_t cq = 0; cq < bounds_.sleepers; ++cq) {
      watch(state, cq, out);
      if (state.cqs[cq].to_come == 0 || !state.daemon.has_room()) continue;
      State next = state;
      --next.cqs[cq].to_come;
      push(next, cq);
      out.push_back({next, "a message completes to CQ", cq});
    }
  }
}

void Doorbells::look(const State& state, Steps& out) const {
  if (state.looks == 0) return;
  State next = state;
  const std::uint8_t cq_word = state.daemon.load(kCqWord, state.memory);
  const std::uint8_t qp_word = state.daemon.load(kQpWord, state.memory);
  if (cq_word == 0 && qp_word == 0) {
    if (!is(Mutation::kStopsAfterEmptyLook)) return;
    next.looks = 0;
    out.push_back({next, "the page is found empty, for the last time", -1});
    return;
  }
  next.doing = State::kTakesWords;
  if (is(Mutation::kLoadAndStore)) {
    next.cq_word = cq_word;
    next.qp_word = qp_word;
  }
  out.push_back({next, "the page is found not empty", -1});
}

// The exchange: a locked operation.
void Doorbells::take_words(const State& state, Steps& out) const {
  State next = state;
  if (is(Mutation::kLoadAndStore)) {
    if (!next.daemon.has_room(2)) return;
    next.daemon.store(kCqWord, 0);
    next.daemon.store(kQpWord, 0);
  } else {
    next.daemon.drain(next.memory);
    next.cq_word = std::exchange(next.memory.values[kCqWord], 0);
    next.qp_word = std::exchange(next.memory.values[kQpWord], 0);
  }
  if (next.qp_word != 0) {
    next.running[next.qp_word & kIndex] = 1;
    if (!is(Mutation::kNoScan)) next.scan_left = kQps;
    next.qp_word = 0;
  }
  const bool is_news =
      next.cq_word != 0 && !(is(Mutation::kPollWordsAreNoNews) && (next.cq_word & kArm) == 0);
  for (Cq& cq : next.cqs) {
    if (!is_news) break;
    cq.epochs_ahead = std::min<std::int8_t>(1, static_cast<std::int8_t>(cq.epochs_ahead + 1));
    cq.needless = 0;
    if (cq.watched == Cq::kUnasked && !is(Mutation::kNoMaybeRule)) cq.watched = Cq::kFresh;
  }
  if ((next.cq_word & kArm) == 0) next.cq_word = 0;
  next.doing = next.cq_word != 0 ? State::kArms : State::kAny;
  out.push_back({next, "the words are taken", -1});
}

void Doorbells::arm(const State& state, Steps& out) {
  State next = state;
  const std::uint8_t index = state.cq_word & kIndex;
  Cq& cq = next.cqs[index];
  next.cq_word = 0;
  next.doing = State::kAny;
  cq.armed = 1;
  cq.epochs_ahead = 0;  // no ARM that was hidden before asks for more
  if (cq.unannounced != 0) {
    if (state.daemon.load(consumer_of(index), state.memory) == cq.pushed) {
      cq.unannounced = 0;
    } else {
      next.firing = index;
      seen_.fired_at_late_arm = true;
    }
  }
  out.push_back({next, "the ARM that was seen is for CQ", index});
}

void Doorbells::push(State& state, std::uint8_t index) {
  Cq& cq = state.cqs[index];
  ++cq.pushed;
  state.looks = 1;
  state.daemon.store(producer_of(index), cq.pushed);
  if (cq.armed != 0) {
    state.firing = index;
    seen_.fired_at_push = true;
  } else {
    cq.unannounced = 1;
    const bool maybe_armed = cq.epochs_ahead > 0 && !is(Mutation::kNoMaybeRule);
    if (cq.watched == Cq::kNot) cq.watched = maybe_armed ? Cq::kFresh : Cq::kUnasked;
  }
}

void Doorbells::raise_event(const State& state, Steps& out) {
  State next = state;
  const std::uint8_t index = state.firing;
  Cq& cq = next.cqs[index];
  Sleeper& sleeper = next.sleepers[index];
  next.daemon.drain(next.memory);
  next.firing = kNobody;
  cq.armed = cq.unannounced = cq.watched = cq.consumer_seen = 0;
  if (!is(Mutation::kFiringKeepsMaybe)) cq.epochs_ahead = is(Mutation::kFiringClearsNextEpoch) ? -1 : 0;
  if (sleeper.armed == 0) {
    cq.needless = std::min<std::uint8_t>(2, static_cast<std::uint8_t>(cq.needless + 1));
    seen_.fired_needlessly = true;
  }
  sleeper.armed = 0;
  const bool takes = sleeper.doing == Sleeper::kTakes || sleeper.doing == Sleeper::kTakesAgain;
  if (bounds_.consumer == Consumer::kKernelPolled && takes) {
    seen_.dropped_event = true;
  } else {
    sleeper.event = 1;
  }
  out.push_back({next, "an event is raised for CQ", index});
}

void Doorbells::run_qp(const State& state, std::uint8_t qp, Steps& out) {
  if (state.running[qp] == 0 || !state.daemon.has_room()) return;
  State next = state;
  if (state.daemon.load(sends_of(qp), state.memory) == state.executed[qp]) {
    next.running[qp] = 0;
    out.push_back({next, "no work is left of QP", qp});
    return;
  }
  ++next.executed[qp];
  next.looks = 1;
  if (bounds_.cq_of[qp] != kNobody) push(next, bounds_.cq_of[qp]);
  out.push_back({next, "work is executed of QP", qp});
}

void Doorbells::scan(const State& state, Steps& out) {
  if (state.scan_left == 0) return;
  State next = state;
  const std::uint8_t qp = state.scan_next;
  --next.scan_left;
  next.scan_next = static_cast<std::uint8_t>((qp + 1) % kQps);
  if (state.running[qp] == 0 && state.daemon.load(sends_of(qp), state.memory) != state.executed[qp]) {
    next.running[qp] = 1;
    seen_.found_hidden_work = true;
  }
  out.push_back({next, "the scan looks at QP", qp});
}

void Doorbells::watch(const State& state, std::uint8_t index, Steps& out) {
  State next = state;
  Cq& cq = next.cqs[index];
  const std::uint8_t consumer = state.daemon.load(consumer_of(index), state.memory);
  if (cq.watched == Cq::kFresh) {
    cq.watched = Cq::kWaiting;
    cq.consumer_seen = consumer;
    out.push_back({next, "its time is set: of CQ", index});
  } else if (cq.watched != Cq::kWaiting) {
    return;
  } else if (consumer == cq.pushed) {
    cq.watched = cq.consumer_seen = 0;
    if (is(Mutation::kEmptyRingClearsMaybe)) cq.epochs_ahead = 0;
    out.push_back({next, "its ring is empty when its time is up: of CQ", index});
  } else if (consumer != cq.consumer_seen) {
    seen_.waited_again = true;
    cq.consumer_seen = consumer;
    if (is(Mutation::kGivesUpWhenMoved)) cq.watched = cq.consumer_seen = 0;
    out.push_back({next, "its consumer index has moved when its time is up: of CQ", index});
  } else {
    next.firing = index;
    seen_.fired_maybe = true;
    out.push_back({next, "it holds a completion when its time is up: CQ", index});
  }
}

}  // namespace pvrdma::model
