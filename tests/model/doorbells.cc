#include "doorbells.h"

#include <algorithm>
#include <utility>

namespace pvrdma::model {
namespace {

// Addresses in memory.
constexpr std::uint8_t kCqWord = 1;
constexpr std::uint8_t kQpWord = 2;
constexpr std::uint8_t producer_of(std::uint8_t cq) {
  return static_cast<std::uint8_t>(3 + cq);
}
constexpr std::uint8_t consumer_of(std::uint8_t cq) {
  return static_cast<std::uint8_t>(3 + kCqs + cq);
}
constexpr std::uint8_t posted_to(std::uint8_t ring) {
  return static_cast<std::uint8_t>(3 + 2 * kCqs + ring);
}
constexpr std::uint8_t kSrqWord = posted_to(kRings);
static_assert(kSrqWord <= kAddresses);

// The bits of the words.
constexpr std::uint8_t kArm = 8;
constexpr std::uint8_t kPoll = 4;
constexpr std::uint8_t doorbell(std::uint8_t action, std::uint8_t index) {
  return static_cast<std::uint8_t>(action | index);
}
constexpr std::uint8_t kSend = 4;
constexpr std::uint8_t kReceive = 8;

using State = Doorbells::State;
using Sleeper = Doorbells::Sleeper;

constexpr std::uint8_t kIndex = 3;  // the bits of a word that name a CQ, QP or SRQ

// The halves of a QP, one bit each.
constexpr std::uint8_t kSends = 1;
constexpr std::uint8_t kReceives = 2;
constexpr std::uint8_t ring_of(std::uint8_t qp, std::uint8_t half) {
  return half == kSends ? qp : receives(qp);
}

}  // namespace

State Doorbells::start() const {
  State state;
  for (std::size_t cq = 0; cq < kCqs; ++cq) state.cqs[cq].to_come = bounds_.messages[cq];
  state.arriving = bounds_.arriving;
  for (std::size_t qp = 0; qp < kQps; ++qp) state.to_fail[qp] = bounds_.failing[qp] ? 1 : 0;
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
    if (work_of(state, qp) != 0) return "posted work is never executed";
    const std::uint8_t ring = receive_ring_of(qp);
    if (state.arriving[qp] != 0 && state.executed[ring] != state.memory.values[posted_to(ring)])
      return "a message waits for a receive that is there";
  }
  for (std::uint8_t cq = 0; cq < bounds_.sleepers; ++cq) {
    if (state.memory.values[producer_of(cq)] != state.memory.values[consumer_of(cq)])
      return "a guest sleeps on a completion";
    if (state.sleepers[cq].doing != Sleeper::kSleeps || state.cqs[cq].to_come != 0)
      return "somebody is stuck";
    if (state.sleepers[cq].arm == Sleeper::kOwed) return "an armed CQ never fires";
  }
  return nullptr;
}

// Adds the steps in which a thread's oldest store reaches memory.
void Doorbells::drains(const State& state, Steps& out) const {
  for (std::uint8_t cq = 0; cq < bounds_.sleepers; ++cq) {
    if (state.sleepers[cq].buffer.empty()) continue;
    State next = state;
    drain_one(next, cq);
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

// The oldest store of the sleeper on `cq` reaches memory.
void Doorbells::drain_one(State& state, std::uint8_t cq) const {
  Sleeper& sleeper = state.sleepers[cq];
  const bool is_arm = sleeper.buffer.oldest_is(kCqWord, doorbell(kArm, cq));
  if (bounds_.consumer == Consumer::kArmPoll && is_arm && sleeper.arm == Sleeper::kWritten)
    sleeper.arm = Sleeper::kVisible;
  sleeper.buffer.drain_one(state.memory);
}

// Each step is one load and everything that follows from it, up to the next load.
void Doorbells::sleeper_steps(const State& state, std::uint8_t cq, Steps& out) const {
  State next = state;
  Sleeper& sleeper = next.sleepers[cq];
  const auto doing = static_cast<decltype(Sleeper::kTakes)>(sleeper.doing);
  if (doing == Sleeper::kSleeps) {
    if (sleeper.event == Sleeper::kNoEvent) return;
    while (!sleeper.buffer.empty()) drain_one(next, cq);
    sleeper.doing = sleeper.event == Sleeper::kOwn ? Sleeper::kTakes : Sleeper::kLooks;
    sleeper.event = Sleeper::kNoEvent;
    out.push_back({next, "an event wakes sleeper", cq});
    return;
  }
  if (!sleeper.buffer.has_room()) return;
  const auto write_arm = [&] {
    sleeper.buffer.store(kCqWord, doorbell(kArm, cq));
    sleeper.arm = Sleeper::kWritten;
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
    if (bounds_.consumer == Consumer::kKernelPolled) sleeper.event = Sleeper::kNoEvent;
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
  const std::uint8_t ring = list[self.posted];
  ++self.posted;
  const auto count = std::count(list.begin(), list.begin() + self.posted, ring);
  self.buffer.store(posted_to(ring), static_cast<std::uint8_t>(count));
  if (ring < kQps) {
    self.buffer.store(kQpWord, doorbell(kSend, ring));
    out.push_back({next, "work is posted to QP", ring});
  } else if (ring < 2 * kQps) {
    const auto qp = static_cast<std::uint8_t>(ring - kQps);
    self.buffer.store(kQpWord, doorbell(kReceive, qp));
    out.push_back({next, "a receive is posted to QP", qp});
  } else {
    const auto srq = static_cast<std::uint8_t>(ring - 2 * kQps);
    self.buffer.store(kSrqWord, doorbell(kReceive, srq));
    out.push_back({next, "a receive is posted to SRQ", srq});
  }
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
    for (std::uint8_t qp = 0; qp < bounds_.qps; ++qp) qp_steps(state, qp, out);
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
  const std::uint8_t srq_word =
      is(Mutation::kReceivesByTheirWords) ? state.daemon.load(kSrqWord, state.memory) : std::uint8_t{0};
  if (cq_word == 0 && qp_word == 0 && srq_word == 0) {
    for (Cq& cq : next.cqs) cq.since_look = 0;
    if (is(Mutation::kStopsAfterEmptyLook)) next.looks = 0;
    if (!(next == state)) out.push_back({next, "the page is found empty", -1});
    return;
  }
  next.doing = State::kTakesWords;
  if (is(Mutation::kLoadAndStore)) {
    next.cq_word = cq_word;
    next.qp_word = qp_word;
  }
  out.push_back({next, "the page is found not empty", -1});
}

// The exchange of the words, a locked operation.
void Doorbells::take_words(const State& state, Steps& out) {
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
  if (is(Mutation::kReceivesByTheirWords)) {
    const std::uint8_t srq_word = std::exchange(next.memory.values[kSrqWord], 0);
    const std::uint8_t ring = shared_receives(srq_word & kIndex);
    if (srq_word != 0) next.told[ring] = next.memory.values[posted_to(ring)];
  }
  if (next.qp_word != 0) take_qp_word(next);
  const bool is_news =
      next.cq_word != 0 && !(is(Mutation::kPollWordsAreNoNews) && (next.cq_word & kArm) == 0);
  for (Cq& cq : next.cqs) {
    if (!is_news) break;
    cq.epochs_ahead = std::min<std::int8_t>(1, static_cast<std::int8_t>(cq.epochs_ahead + 1));
    cq.needless = 0;
    if (cq.watched == Cq::kUnasked && !is(Mutation::kNoMaybeRule)) cq.watched = Cq::kFresh;
  }
  if (next.cq_word != 0 && next.cqs[next.cq_word & kIndex].watched == Cq::kWaiting)
    next.cqs[next.cq_word & kIndex].is_named = 1;
  if ((next.cq_word & kArm) == 0) next.cq_word = 0;
  for (std::uint8_t cq = 0; cq < kCqs; ++cq)
    if (next.cq_word != doorbell(kArm, cq)) next.cqs[cq].since_look = 0;
  next.doing = next.cq_word != 0 ? State::kArms : State::kAny;
  out.push_back({next, "the words are taken", -1});
}

void Doorbells::take_qp_word(State& state) {
  const std::uint8_t word = std::exchange(state.qp_word, 0);
  const std::uint8_t qp = word & kIndex;
  const bool says_send = (word & kSend) != 0;
  if (!says_send && is(Mutation::kReceivesByTheirWords))
    state.told[receives(qp)] = state.daemon.load(posted_to(receives(qp)), state.memory);
  if (!says_send && (work_of(state, qp) & kSends) != 0 && state.running[qp] == 0)
    seen_.found_send_behind_receive = true;
  if (says_send || state.failed[qp] != 0 || !is(Mutation::kReceiveWordRunsNoSend))
    state.running[qp] |= kSends;
  if (!says_send || !is(Mutation::kSendWordFlushesSends)) state.running[qp] |= kReceives;
  // The only QP of a context hides no other QP's word.
  if (bounds_.qps > 1 && !is(Mutation::kNoScan)) state.scan_left = bounds_.qps;
}

void Doorbells::arm(const State& state, Steps& out) {
  State next = state;
  const std::uint8_t index = state.cq_word & kIndex;
  Cq& cq = next.cqs[index];
  next.cq_word = 0;
  next.doing = State::kAny;
  const bool is_older = std::exchange(cq.since_look, 0) == 0;  // than the ARM
  cq.armed = 1;
  cq.epochs_ahead = 0;  // an ARM that was overwritten before asks for nothing more
  cq.watched = cq.consumer_seen = cq.is_named = 0;
  if (cq.unannounced != 0) {
    const bool taken = state.daemon.load(consumer_of(index), state.memory) == cq.pushed;
    if (taken && (is_older || is(Mutation::kLateArmOwesNothing))) {
      cq.unannounced = 0;
    } else {
      next.firing = index;
      (taken ? seen_.fired_taken_at_late_arm : seen_.fired_at_late_arm) = true;
    }
  }
  out.push_back({next, "the ARM that was seen is for CQ", index});
}

void Doorbells::push(State& state, std::uint8_t index) {
  Cq& cq = state.cqs[index];
  ++cq.pushed;
  if (state.sleepers[index].arm == Sleeper::kVisible) state.sleepers[index].arm = Sleeper::kOwed;
  state.looks = 1;
  state.daemon.store(producer_of(index), cq.pushed);
  if (cq.armed != 0) {
    state.firing = index;
    seen_.fired_at_push = true;
  } else {
    cq.unannounced = cq.since_look = 1;
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
  cq.armed = cq.unannounced = cq.since_look = cq.watched = cq.consumer_seen = cq.is_named = 0;
  if (!is(Mutation::kFiringKeepsMaybe)) cq.epochs_ahead = is(Mutation::kFiringClearsNextEpoch) ? -1 : 0;
  if (sleeper.arm == Sleeper::kNotArmed) {
    cq.needless = std::min<std::uint8_t>(2, static_cast<std::uint8_t>(cq.needless + 1));
    seen_.fired_needlessly = true;
  }
  sleeper.arm = Sleeper::kNotArmed;
  const bool takes = sleeper.doing == Sleeper::kTakes || sleeper.doing == Sleeper::kTakesAgain;
  if (bounds_.consumer == Consumer::kKernelPolled && takes) {
    seen_.dropped_event = true;
  } else {
    sleeper.event = Sleeper::kOwn;
  }
  for (std::uint8_t other = 0; bounds_.one_channel && other < bounds_.sleepers; ++other) {
    std::uint8_t& event = next.sleepers[other].event;
    if (event == Sleeper::kNoEvent) event = Sleeper::kOfAnother;
  }
  out.push_back({next, "an event is raised for CQ", index});
}

void Doorbells::qp_steps(const State& state, std::uint8_t qp, Steps& out) {
  for (const std::uint8_t half : {kSends, kReceives}) run(state, qp, half, out);
  if (state.to_fail[qp] != 0) {
    State next = state;
    next.to_fail[qp] = next.arriving[qp] = 0;
    next.failed[qp] = 1;
    next.running[qp] = kSends | kReceives;
    out.push_back({next, "a command ends QP", qp});
  }
  if (state.arriving[qp] == 0 || !state.daemon.has_room()) return;
  const std::uint8_t ring = receive_ring_of(qp);
  const std::uint8_t posted = is(Mutation::kReceivesByTheirWords)
                                  ? state.told[ring]
                                  : state.daemon.load(posted_to(ring), state.memory);
  if (state.executed[ring] == posted) return;
  State next = state;
  --next.arriving[qp];
  ++next.executed[ring];
  if (bounds_.cq_of[qp] != kNobody) push(next, bounds_.cq_of[qp]);
  out.push_back({next, "a message takes a receive: of QP", qp});
}

void Doorbells::run(const State& state, std::uint8_t qp, std::uint8_t half, Steps& out) {
  if ((state.running[qp] & half) == 0 || !state.daemon.has_room()) return;
  State next = state;
  if ((work_of(state, qp) & half) == 0) {
    next.running[qp] &= static_cast<std::uint8_t>(~half);
    out.push_back({next, "no work is left of QP", qp});
    return;
  }
  ++next.executed[ring_of(qp, half)];
  next.looks = 1;
  if (bounds_.cq_of[qp] != kNobody) push(next, bounds_.cq_of[qp]);
  out.push_back({next, "work is executed of QP", qp});
}

std::uint8_t Doorbells::work_of(const State& state, std::uint8_t qp) {
  std::uint8_t work = 0;
  for (const std::uint8_t half : {kSends, kReceives}) {
    if (half == kReceives && state.failed[qp] == 0) continue;  // receives wait for messages
    const std::uint8_t ring = ring_of(qp, half);
    if (state.daemon.load(posted_to(ring), state.memory) != state.executed[ring]) work |= half;
  }
  return work;
}

void Doorbells::scan(const State& state, Steps& out) {
  if (state.scan_left == 0) return;
  State next = state;
  const std::uint8_t qp = state.scan_next;
  --next.scan_left;
  next.scan_next = static_cast<std::uint8_t>((qp + 1) % bounds_.qps);
  const bool failed = state.failed[qp] != 0;
  const auto hidden = static_cast<std::uint8_t>(work_of(state, qp) & ~state.running[qp]);
  if (hidden != 0 && !(failed && is(Mutation::kScanSkipsFailed))) {
    next.running[qp] |= hidden;
    (failed ? seen_.found_hidden_flush : seen_.found_hidden_work) = true;
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
  } else if (consumer == cq.pushed && is(Mutation::kTakenNeedsNoEvent)) {
    cq.watched = cq.consumer_seen = cq.is_named = 0;
    out.push_back({next, "its ring is empty when its time is up: of CQ", index});
  } else if (consumer != cq.consumer_seen || cq.is_named != 0) {
    seen_.waited_again = true;
    const bool gives_up =
        is(consumer != cq.consumer_seen ? Mutation::kGivesUpWhenMoved : Mutation::kGivesUpWhenNamed);
    cq.consumer_seen = gives_up ? std::uint8_t{0} : consumer;
    cq.is_named = 0;
    if (gives_up) cq.watched = Cq::kNot;
    out.push_back({next, "its consumer is awake when its time is up: of CQ", index});
  } else {
    next.firing = index;
    seen_.fired_maybe = true;
    if (consumer == cq.pushed) seen_.fired_taken = true;
    out.push_back({next, "its consumer is silent when its time is up: of CQ", index});
  }
}

}  // namespace pvrdma::model
