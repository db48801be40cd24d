// Doorbells: the protocol between a guest that rings mapped doorbells and the daemon that looks for them, as
// a model for explore(): nothing of src/ is in it, it is the rules of docs/adr/0014-mapped-doorbells.md, as
// device/doorbell_poller.h and verbs/completion_watch.h have them, written down once more.
//
// One doorbell page. Its CQ word, QP word and SRQ word hold what was written last; 0 is nothing. Sleepers are
// guest threads with a CQ each; posters are others, which post to the rings of their lists, one work request
// each time. Each QP's completions go to a CQ or to nobody; completions of other origin come at any time.
// Messages come at any time, too, and wait until there is a receive for them in their QP's own ring or its
// SRQ's, as an RNR NAK lets a peer do. QPs that are to fail do so at any time: from then on they flush, and
// take no message. The daemon is one thread that does, in any order and for ever: append a completion, take a
// receive for a message, run a QP, look at the page, look at the next QP of a scan, look at a watched CQ.
//
// What is left out. A ring is its two indices, as store buffers keep its contents before them; it never wraps
// or fills. Time is any: a CQ may be due at each look at which its consumer index has not moved. Solicited
// ARMs, budgets, several contexts, their coming and going, and commands are not there. Raising an event
// is a locked operation of the daemon, as the system call behind it is. Whoever can go on and whatever store
// waits does so in the end, however late: a sequence ends only where nothing can happen but looks that find
// nothing. There no guest may sleep on a completion, no posted work may wait, and no message for a receive
// that is there. (The SRQ word needs no look for that, and is there to show that it needs none.)
//
// Epochs are counted by their difference to what a CQ has cleared, as nothing else is asked of them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "explore.h"
#include "store_buffer.h"

namespace pvrdma::model {

inline constexpr std::size_t kCqs = 3;
inline constexpr std::size_t kQps = 2;
inline constexpr std::size_t kSrqs = 2;
inline constexpr std::size_t kRings = 2 * kQps + kSrqs;
inline constexpr std::size_t kPosters = 2;
inline constexpr std::uint8_t kNobody = 0xff;

// Rings that guests post to, by number: the send rings of the QPs, their receive rings, the SRQs.
constexpr std::uint8_t receives(std::uint8_t qp) {
  return static_cast<std::uint8_t>(kQps + qp);
}
constexpr std::uint8_t shared_receives(std::uint8_t srq) {
  return static_cast<std::uint8_t>(2 * kQps + srq);
}

// What a consumer does between waking up and sleeping.
enum class Consumer : std::uint8_t {
  kPollArmPoll,   // takes what is there, arms, looks once more; events are kept for it
  kArmPoll,       // arms, then takes what is there; events are kept for it
  kKernelPolled,  // as kPollArmPoll, but an event is lost on it while it takes: it is scheduled already
};

// The rules of the daemon, each of which can be broken.
enum class Mutation : std::uint8_t {
  kNone,
  kNoMaybeRule,            // a CQ is armed only by an ARM that was seen
  kLoadAndStore,           // takes the words by a load and a store of 0
  kEmptyRingClearsMaybe,   // what was maybe armed is not, when the ring is found empty
  kGivesUpWhenMoved,       // watches a CQ no more whose consumer index has moved
  kStopsAfterEmptyLook,    // looks again only when it has work anyhow
  kNoScan,                 // runs only the QP that it saw
  kFiringClearsNextEpoch,  // an epoch too much: of a word that was not taken yet
  kPollWordsAreNoNews,     // a word that is a POLL begins no epoch
  kFiringKeepsMaybe,       // firing leaves the CQ maybe armed
  kReceiveWordRunsNoSend,  // a word that says receive runs only a QP that flushes
  kSendWordFlushesSends,   // one that says send flushes no receives
  kScanSkipsFailed,        // the scan looks for sends to be executed, not for work to be flushed
  kReceivesByTheirWords,   // a message takes only receives of which a word was found
};

struct Bounds {
  std::uint8_t sleepers = 1;
  Consumer consumer = Consumer::kPollArmPoll;
  bool polls_write = false;                               // an empty look writes POLL and looks again
  std::array<std::uint8_t, kCqs> messages{};              // completions of other origin, of each CQ
  std::array<std::vector<std::uint8_t>, kPosters> posts;  // to which rings, in this order
  std::uint8_t qps = kQps;                                // of the context
  std::array<std::uint8_t, kQps> arriving{};              // messages to each QP, which need receives
  std::array<bool, kQps> failing{};                       // fails at some time
  std::array<std::uint8_t, kQps> srq_of{kNobody, kNobody};
  std::array<std::uint8_t, kQps> cq_of{kNobody, kNobody};
  Mutation mutation = Mutation::kNone;
};

// What happened somewhere in an exploration: without all of it, a model that finds nothing has shown nothing.
struct Seen {
  bool fired_at_push = false;
  bool fired_at_late_arm = false;
  bool fired_maybe = false;
  bool fired_needlessly = false;
  bool dropped_event = false;
  bool found_hidden_work = false;
  bool found_hidden_flush = false;
  bool found_send_behind_receive = false;
  bool waited_again = false;  // the consumer index had moved when time was up
};

class Doorbells {
 public:
  struct Sleeper {
    enum Doing : std::uint8_t { kTakes, kTakesAgain, kLooks, kLooksAgain, kSleeps };
    std::uint8_t doing = kTakes;
    std::uint8_t taken = 0;
    std::uint8_t event = 0;  // one waits for it
    std::uint8_t armed = 0;  // has written ARM since the last event was raised
    StoreBuffer buffer;
    bool operator==(const Sleeper&) const = default;
  };
  struct Poster {
    std::uint8_t posted = 0;  // of its list
    StoreBuffer buffer;
    bool operator==(const Poster&) const = default;
  };
  struct Cq {
    std::uint8_t to_come = 0;  // completions of other origin
    std::uint8_t pushed = 0;
    std::uint8_t armed = 0;  // exactly
    std::uint8_t unannounced = 0;
    enum Watched : std::uint8_t { kNot, kUnasked, kFresh, kWaiting };
    std::uint8_t watched = kNot;
    std::uint8_t consumer_seen = 0;  // with kWaiting
    std::int8_t epochs_ahead = 0;    // of what is cleared, 1 at most: > 0 is maybe armed
    std::uint8_t needless = 0;       // events that nobody had armed for, in this epoch
    bool operator==(const Cq&) const = default;
  };
  struct State {
    Memory memory;
    std::array<Sleeper, kCqs> sleepers;
    std::array<Cq, kCqs> cqs;
    std::array<Poster, kPosters> posters;
    // The daemon.
    StoreBuffer daemon;
    std::array<std::uint8_t, kRings> executed{};  // or flushed, or taken by a message
    std::array<std::uint8_t, kRings> told{};      // with a mutation only: receives, at their last word
    std::array<std::uint8_t, kQps> arriving{};
    std::array<std::uint8_t, kQps> to_fail{};
    std::array<std::uint8_t, kQps> failed{};
    std::array<std::uint8_t, kQps> running{};  // what has work, as far as is known: kSends, kReceives
    enum Doing : std::uint8_t { kAny, kTakesWords, kArms };
    std::uint8_t doing = kAny;
    std::uint8_t cq_word = 0;  // what the look found
    std::uint8_t qp_word = 0;
    std::uint8_t srq_word = 0;      // with a mutation only
    std::uint8_t firing = kNobody;  // the CQ for which it raises an event next
    std::uint8_t scan_left = 0;
    std::uint8_t scan_next = 0;
    std::uint8_t looks = 1;                // 0: has stopped looking at the page, by a mutation
    std::array<std::uint8_t, 6> unused{};  // a state is whole words
    bool operator==(const State&) const = default;
  };

  explicit Doorbells(Bounds bounds) : bounds_(std::move(bounds)) {}

  State start() const;
  void steps(const State& state, std::vector<Step<State>>& out);
  const char* wrong(const State& state) const;
  const char* wrong_end(const State& state) const;

  const Seen& seen() const { return seen_; }

 private:
  using Steps = std::vector<Step<State>>;
  void drains(const State& state, Steps& out) const;
  void sleeper_steps(const State& state, std::uint8_t cq, Steps& out) const;
  void poster_step(const State& state, std::uint8_t poster, Steps& out) const;
  void daemon_steps(const State& state, Steps& out);
  void look(const State& state, Steps& out) const;
  void take_words(const State& state, Steps& out);
  void arm(const State& state, Steps& out);
  void raise_event(const State& state, Steps& out);
  void qp_steps(const State& state, std::uint8_t qp, Steps& out);
  void take_qp_word(State& state);
  void run(const State& state, std::uint8_t qp, std::uint8_t half, Steps& out);
  // The halves of a QP that hold what is to be executed or flushed.
  static std::uint8_t work_of(const State& state, std::uint8_t qp);
  std::uint8_t receive_ring_of(std::uint8_t qp) const {
    return bounds_.srq_of[qp] == kNobody ? receives(qp) : shared_receives(bounds_.srq_of[qp]);
  }
  void scan(const State& state, Steps& out);
  void watch(const State& state, std::uint8_t cq, Steps& out);
  void push(State& state, std::uint8_t cq);
  bool is(Mutation mutation) const { return bounds_.mutation == mutation; }

  const Bounds bounds_;
  Seen seen_;
};

}  // namespace pvrdma::model
