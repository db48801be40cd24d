// Loans: guest memory that a path uses after the call that passed it. There are three kinds. The source of a
// lent request is in use until the work request is answered. The source of a lent read answer is in use until
// the peer has confirmed that it has the data. The target of a payload, of a request or a read answer, is in
// use while the payload is placed later.
//
// The guest may reuse such memory as soon as it learns that a work request has ended, a key is gone or the QP
// is reset. So the engine ends the loans before it tells the guest: by an answer, or by stop(), after which
// no path touches the memory. A loan may be counted longer than its path uses it; that does no harm.
//
// The log of written pages (guestmem/address_space.h) records a target's pages when the target is looked up.
// When the payload has arrived, the message's engine looks the target up once more, and stop() does the same.
// So pages written in between are in the log.
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

// A piece of a message whose payload is being placed.
struct Placing {
  MessageNumber number;
  bool is_write = false;   // addressed by its key; otherwise placed into the receive in progress
  bool is_last = false;    // the last piece of its message
  bool completes = false;  // executing it completes a receive
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;  // remote address of the message
  std::uint32_t offset = 0;   // of the piece in the message
  std::uint32_t bytes = 0;

  std::uint32_t end() const { return offset + bytes; }
};

// The loans of one QP.
struct QpLoans {
  static constexpr std::uint32_t kPlacingsMax = 4;
  static constexpr std::uint32_t kAnswersMax = 16;

  explicit QpLoans(QueuePair* qp) : link(qp) {}
  bool any() const { return lent != 0 || placing_count != 0 || answer_count != 0; }
  // The n-th oldest placing.
  Placing& placing(std::uint32_t n) { return placings[(first + n) % kPlacingsMax]; }
  const Placing& placing(std::uint32_t n) const { return placings[(first + n) % kPlacingsMax]; }

  std::uint32_t lent = 0;      // work requests that are lent
  std::uint32_t fetching = 0;  // pieces of answers in flight, over all reads of the QP
  std::uint32_t first = 0;
  std::uint32_t placing_count = 0;
  std::array<Placing, kPlacingsMax> placings;  // a ring in message order
  std::uint32_t answer_count = 0;
  std::array<std::uint32_t, kAnswersMax> answers;  // the key of each lent answer
  QueueLink<QueuePair> link;
};

class Loans {
 public:
  // Both are borrowed.
  Loans(Wire& wire, MemoryRegionTable& mrs) : wire_(wire), mrs_(mrs) {}

  // A path borrowed a piece of `work`. Further calls for the same work request do nothing.
  void lend(QueuePair& qp, SendWorkState& work, std::span<const abi::Sge> sges);
  // All of `work` was answered. Does nothing if none of it was lent.
  void give_back(QueuePair& qp, SendWorkState& work, std::span<const abi::Sge> sges);

  // A path is placing a piece of the answer to the read `work`. The pieces reach up to work.fetched.
  void begin_fetching(QueuePair& qp, SendWorkState& work, std::span<const abi::Sge> sges);
  // The oldest such piece has ended. Returns false if there was none.
  bool end_fetching(QueuePair& qp, SendWorkState& work, std::span<const abi::Sge> sges);

  // Whether another answer may be lent. lend_answer() counts a loan of the region with that key,
  // give_answer_back() ends one.
  static bool may_lend_answer(const QueuePair& qp);
  void lend_answer(QueuePair& qp, std::uint32_t rkey);
  void give_answer_back(QueuePair& qp, std::uint32_t rkey);

  // A path is placing the payload of `request`, in addition to earlier ones.
  void begin_placing(QueuePair& qp, const Request& request);
  // The placing of the oldest payload has ended.
  void end_placing(QueuePair& qp);
  // Whether the payload of a write may be placed behind those in progress: the write comes next, there is
  // room for it, and nothing before it may have to wait for a receive.
  static bool may_follow(const QueuePair& qp, const Request& request);

  // When it returns, no path reads or writes memory for the QP.
  void stop(QueuePair& qp);
  // Like stop(), for each QP for which `is_one(qp)` holds.
  template <typename IsOne>
  void stop_those(IsOne is_one) {
    for (QueueLink<QueuePair>* at = &all_.next(); at != &all_;) {
      QueuePair& qp = *at->owner();
      at = &at->next();
      if (is_one(qp)) stop(qp);
    }
  }
  // stop_all() covers all QPs. The next two do the same, but only if a loan names the region.
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
  QueueLink<QueuePair> all_{nullptr};  // QPs that have a loan
};

}  // namespace pvrdma::verbs
