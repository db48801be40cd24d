// Doorbells: a model for explore() of the protocol between a guest that rings mapped doorbells and the daemon
// that polls them. It uses no code of src/. It repeats the rules of docs/adr/0014-mapped-doorbells.md, which
// device/doorbell_poller.h and verbs/completion_watch.h implement.
//
// There is one doorbell page. Its CQ word, QP word and SRQ word have the last value written; 0 means nothing.
// Sleepers are guest threads with a CQ each. Posters are other guest threads; each posts one work request
// after the other to the rings of its list. Each QP's completions go to a CQ or nowhere; completions of other
// origin come at any time. Messages also come at any time, and wait until there is a receive for them in
// their QP's own ring or its SRQ's, as a peer does after an RNR NAK. QPs that must fail do so at any time;
// from then on they flush, and take no message. The daemon is one thread that, in any order and for ever,
// appends a completion, takes a receive for a message, runs a QP, looks at the page, looks at the next QP of
// a scan, or looks at a watched CQ.
//
// The model simplifies. A ring is only its two indices, because store buffers keep its contents in order
// before them; it never wraps or fills. Time is arbitrary: a CQ may be due at each look at which its consumer
// index has not moved. There are no solicited ARMs, no budgets and no commands, and only one context, which
// always exists. Raising an event is a locked operation of the daemon, and waking for it one of the guest,
// like the system calls that do it.
//
// Hardware fires an armed CQ for a new completion even if the consumer has taken that completion meanwhile.
// For a consumer that counts events the model keeps, beside the protocol, whether its last ARM has reached
// memory since the last event, and whether a completion came after that. It arms once for each event that it
// gets, so no earlier ARM can owe it another event.
//
// Every thread that can continue, and every store that waits, does so in the end, however late. So a sequence
// ends only in a state in which nothing can happen but looks that find nothing. In that state no guest may
// sleep on a completion, no posted work may wait, and no message may wait for a receive that is there. (The
// daemon never needs to look at the SRQ word for that; the model has the word to show this.)
//
// Of epochs, the model only keeps the difference to the epoch that a CQ has cleared, because the rules need
// nothing else.
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

// The numbers of the rings to which guests post: the send rings of the QPs, their receive rings, the SRQs.
constexpr std::uint8_t receives(std::uint8_t qp) {
  return static_cast<std::uint8_t>(kQps + qp);
}
constexpr std::uint8_t shared_receives(std::uint8_t srq) {
  return static_cast<std::uint8_t>(2 * kQps + srq);
}

// How a consumer goes to sleep after it was woken.
enum class Consumer : std::uint8_t {
  kPollArmPoll,   // takes all completions, arms, looks again; events are kept for it
  kArmPoll,       // arms once for each event, then takes all completions; counts the events that it gets
  kKernelPolled,  // as kPollArmPoll, but an event while it takes completions has no effect
};

// Ways to break a rule of the daemon.
enum class Mutation : std::uint8_t {
  kNone,
  kNoMaybeRule,            // only an observed ARM arms a CQ
  kLoadAndStore,           // takes the words with a load and a store of 0
  kLateArmOwesNothing,     // an ARM that is seen asks for nothing if all completions have been taken
  kTakenNeedsNoEvent,      // stops watching a CQ whose completions have all been taken
  kGivesUpWhenMoved,       // stops watching a CQ whose consumer index has moved
  kGivesUpWhenNamed,       // stops watching a CQ that a word has named
  kStopsAfterEmptyLook,    // looks again only if it has other work
  kNoScan,                 // runs only the QP whose word it saw
  kFiringClearsNextEpoch,  // also clears the epoch of a word that is not taken yet
  kPollWordsAreNoNews,     // a POLL word begins no epoch
  kFiringKeepsMaybe,       // after firing, the CQ is still maybe armed
  kReceiveWordRunsNoSend,  // a receive word runs only a QP that flushes
  kSendWordFlushesSends,   // a send word flushes no receives
  kScanSkipsFailed,        // the scan looks for sends to execute, but not for work to flush
  kReceivesByTheirWords,   // a message takes only receives that a word announced
};

struct Bounds {
  std::uint8_t sleepers = 1;
  Consumer consumer = Consumer::kPollArmPoll;
  bool polls_write = false;                               // an empty look writes POLL and looks again
  bool one_channel = false;                               // each event makes all sleepers look at their CQs
  std::array<std::uint8_t, kCqs> messages{};              // completions of other origin, by CQ
  std::array<std::vector<std::uint8_t>, kPosters> posts;  // the rings to which each poster posts, in order
  std::uint8_t qps = kQps;                                // of the context
  std::array<std::uint8_t, kQps> arriving{};              // messages to each QP; each needs a receive
  std::array<bool, kQps> failing{};                       // whether the QP fails at some time
  std::array<std::uint8_t, kQps> srq_of{kNobody, kNobody};
  std::array<std::uint8_t, kQps> cq_of{kNobody, kNobody};
  Mutation mutation = Mutation::kNone;
};

// What happened somewhere in an exploration. An exploration that finds no error shows something only if all
// of this happened.
struct Seen {
  bool fired_at_push = false;
  bool fired_at_late_arm = false;
  bool fired_maybe = false;
  bool fired_needlessly = false;
  bool dropped_event = false;
  bool found_hidden_work = false;
  bool found_hidden_flush = false;
  bool found_send_behind_receive = false;
  bool waited_again = false;  // the consumer was awake when the time was over
  bool fired_taken = false;   // for a completion that its consumer had taken
  bool fired_taken_at_late_arm = false;
};

class Doorbells {
 public:
  struct Sleeper {
    enum Doing : std::uint8_t { kTakes, kTakesAgain, kLooks, kLooksAgain, kSleeps };
    std::uint8_t doing = kTakes;
    std::uint8_t taken = 0;
    enum Event : std::uint8_t { kNoEvent, kOfAnother, kOwn };  // kOfAnother: of a CQ with the same channel
    std::uint8_t event = kNoEvent;                             // waits for it
    // Since the last event was raised for its CQ: an ARM was written, and if the consumer counts events, the
    // last one has become visible, and a completion came then.
    enum Arm : std::uint8_t { kNotArmed, kWritten, kVisible, kOwed };
    std::uint8_t arm = kNotArmed;
    StoreBuffer buffer;
    bool operator==(const Sleeper&) const = default;
  };
  struct Poster {
    std::uint8_t posted = 0;  // entries of its list
    StoreBuffer buffer;
    bool operator==(const Poster&) const = default;
  };
  struct Cq {
    std::uint8_t to_come = 0;  // completions of other origin still to come
    std::uint8_t pushed = 0;
    std::uint8_t armed = 0;  // 1: by an observed ARM
    std::uint8_t unannounced = 0;
    enum Watched : std::uint8_t { kNot, kUnasked, kFresh, kWaiting };
    std::uint8_t watched = kNot;
    std::uint8_t consumer_seen = 0;  // only with kWaiting
    std::uint8_t is_named = 0;       // only with kWaiting: a word named it since its time was set
    std::uint8_t since_look = 0;     // an unannounced completion came since the page was looked at
    std::int8_t epochs_ahead = 0;    // of the cleared epoch, at most 1; > 0: maybe armed
    std::uint8_t needless = 0;       // events in this epoch without an ARM
    bool operator==(const Cq&) const = default;
  };
  struct State {
    Memory memory;
    std::array<Sleeper, kCqs> sleepers;
    std::array<Cq, kCqs> cqs;
    std::array<Poster, kPosters> posters;
    // The daemon.
    StoreBuffer daemon;
    std::array<std::uint8_t, kRings> executed{};  // by ring: executed, flushed, or taken by a message
    std::array<std::uint8_t, kRings> told{};      // only with a mutation: receives announced by words
    std::array<std::uint8_t, kQps> arriving{};
    std::array<std::uint8_t, kQps> to_fail{};
    std::array<std::uint8_t, kQps> failed{};
    std::array<std::uint8_t, kQps> running{};  // the halves known to have work: kSends, kReceives
    enum Doing : std::uint8_t { kAny, kTakesWords, kArms };
    std::uint8_t doing = kAny;
    std::uint8_t cq_word = 0;  // found by the look
    std::uint8_t qp_word = 0;
    std::uint8_t srq_word = 0;      // only with a mutation
    std::uint8_t firing = kNobody;  // the CQ whose event it raises next
    std::uint8_t scan_left = 0;
    std::uint8_t scan_next = 0;
    std::uint8_t looks = 1;  // 0: a mutation has stopped looking at the page
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
  void drain_one(State& state, std::uint8_t cq) const;
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
  // The halves of a QP with work to execute or flush.
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
