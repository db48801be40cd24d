// Loans: memory of the guest that a path uses after the call in which it was given: the source of a request
// that was lent, until the work request is answered; that of an answer to a read, until the peer has said
// that it has it; and the target of a payload, of a request or of such an answer, that is placed later.
//
// The guest may use such memory for something else as soon as it is told that a work request has ended, that
// a key is gone or that its QP is reset. So whoever is about to tell it ends the loans first: by an answer,
// or by stop(), after which no path touches it. A loan that counts although its path has forgotten it does no
// harm.
//
// The log of written pages (guestmem/address_space.h) gets the pages of a target when it is looked up: when
// the payload is there the message's engine looks it up once more, and stop() does the same, so that pages
// that were written in between are in the log.
//
// Nothing here allocates. Thread: shard-owned.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "abi/wqe.h"
#include "verbs/ids.h"
#include "verbs/queue_link.h"

namespace pvrdma::verbs {

class MemoryRegionTable;
class QueuePair;
class Wire;
struct Request;
struct SendWorkState;

// Payload that is being placed: a piece of a message.
struct Placing {
  MessageNumber number;
  bool is_write = false;   // by its key; otherwise into the receive under way
  bool is_last = false;    // of its message
  bool completes = false;  // a receive, when it is executed
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;  // of the message
  std::uint32_t offset = 0;   // in the message
  std::uint32_t bytes = 0;

  std::uint32_t end() const { return offset + bytes; }
};

// A QP's own.
struct QpLoans {
  static constexpr std::uint32_t kPlacingsMax = 4;
  static constexpr std::uint32_t kAnswersMax = 16;

  explicit QpLoans(QueuePair* qp) : link(qp) {}
  bool any() const { return lent != 0 || placing_count != 0 || answer_count != 0; }
  // The n-th oldest.
  Placing& placing(std::uint32_t n) { return placings[(first + n) % kPlacingsMax]; }
  const Placing& placing(std::uint32_t n) const { return placings[(first + n) % kPlacingsMax]; }

  std::uint32_t lent = 0;      // work requests
  std::uint32_t fetching = 0;  // pieces of answers, all of their reads
  std::uint32_t first = 0;
  std::uint32_t placing_count = 0;
  std::array<Placing, kPlacingsMax> placings;  // a ring, in the order of the messages
  std::uint32_t answer_count = 0;
  std::array<std::uint32_t, kAnswersMax> answers;  // that are lent: the key of each
  QueueLink<QueuePair> link;
};

class Loans {
 public:
  // Both borrowed.
  Loans(Wire& wire, MemoryRegionTable& mrs) : wire_(wire), mrs_(mrs) {}

  // A piece of `work` was lent. More than once does nothing.
  void lend(QueuePair& qp, SendWorkState& work, std::span<const abi::Sge> sges);
  // All of it was answered. Does nothing when none of it was lent.
  void give_back(QueuePair& qp, SendWorkState& work, std::span<const abi::Sge> sges);

  // A piece of the answer to the read `work` is being placed, up to work.fetched.
  void begin_fetching(QueuePair& qp, SendWorkState& work, std::span<const abi::Sge> sges);
  // The oldest such piece is not any more. False: there was none.
  bool end_fetching(QueuePair& qp, SendWorkState& work, std::span<const abi::Sge> sges);

  // Whether another answer may be lent; one was, of the region of that key; one is not any more.
  static bool may_lend_answer(const QueuePair& qp);
  void lend_answer(QueuePair& qp, std::uint32_t rkey);
  void give_answer_back(QueuePair& qp, std::uint32_t rkey);

  // The payload of `request` is being placed, too.
  void begin_placing(QueuePair& qp, const Request& request);
  // That of the oldest is no more.
  void end_placing(QueuePair& qp);
  // Whether a write may be placed behind what is: it is next, there is room for it, and nothing before it
  // can make it wait for a receive.
  static bool may_follow(const QueuePair& qp, const Request& request);

  // When it returns, no path reads or writes memory for the QP.
  void stop(QueuePair& qp);
  // The same for each QP for which `is_one(qp)` holds.
  template <typename IsOne>
  void stop_those(IsOne is_one) {
    for (QueueLink<QueuePair>* at = &all_.next(); at != &all_;) {
      QueuePair& qp = *at->owner();
      at = &at->next();
      if (is_one(qp)) stop(qp);
    }
  }
  // For all QPs; these two only when a loan names the region.
  void stop_all();
  void stop_key(std::uint32_t key);
  void stop_region(MrHandle handle);

 private:
  void add_uses(std::span<const abi::Sge> sges);
  void drop_uses(std::span<const abi::Sge> sges);
  void mark_again(const QueuePair& qp) const;
  void mark_again(const QueuePair& qp, const SendWorkState& work, std::span<const abi::Sge> sges) const;
  void forget(QueuePair& qp);
  void update(QueuePair& qp);

  Wire& wire_;
  MemoryRegionTable& mrs_;
  QueueLink<QueuePair> all_{nullptr};  // QPs with any
};

}  // namespace pvrdma::verbs
