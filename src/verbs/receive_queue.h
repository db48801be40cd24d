// ReceiveQueue and SharedReceiveQueue: the queues from which a responder takes receive WQEs. A QP has its own
// RQ or uses an SRQ. Reference 4.4-4.6, 6.3, 7.7. Thread: shard-owned.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "abi/wqe.h"
#include "guestmem/address_space.h"
#include "guestmem/ring.h"
#include "verbs/account.h"
#include "verbs/events.h"
#include "verbs/ids.h"
#include "verbs/limits.h"
#include "verbs/queue_link.h"
#include "verbs/status.h"

namespace pvrdma::verbs {

// A private, validated copy of a receive WQE.
struct ReceiveWork {
  std::uint64_t wr_id = 0;
  std::uint32_t sge_count = 0;
  std::uint64_t total_bytes = 0;  // sum of the SGE lengths
  std::array<abi::Sge, kSgeMax> sges{};
  bool bad = false;  // more SGEs than the queue allows: complete it with a local QP operation error
};

class QueuePair;

enum class Taken { kOne, kEmpty, kBroken };  // kBroken: the ring's index is invalid, or a page is gone

class ReceiveQueue {
 public:
  ReceiveQueue(guestmem::GuestRing ring, std::uint32_t max_sge) : ring_(std::move(ring)), max_sge_(max_sge) {}

  // Copies the next WQE once and advances the guest's cons_head.
  Taken take(ReceiveWork& out);

  // The number of WQEs that are posted and not taken; 0 if the ring's indices are invalid.
  std::uint32_t available();

  std::size_t page_count() const { return ring_.page_count(); }

  guestmem::SavedRing save() const {
    const auto& [ring, max_sge] = *this;
    return ring.save();
  }

  // Forgets the positions (QP -> RESET). The guest zeroes its ring words afterwards.
  void reset() { ring_.resync(); }

 private:
  guestmem::GuestRing ring_;
  std::uint32_t max_sge_;
};

struct CreateSrq {
  PdHandle pd;
  ContextHandle context;
  std::uint32_t max_wr = 0;  // a power of two
  std::uint32_t max_sge = 0;
  std::uint32_t limit = 0;
  std::uint32_t page_count = 0;
  std::uint64_t page_directory = 0;
};

struct SavedSrq {
  SrqHandle handle;
  PdHandle pd;
  std::uint32_t max_wr = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t limit = 0;
  guestmem::SavedRing ring;
};

class SharedReceiveQueue {
 public:
  static Outcome<std::unique_ptr<SharedReceiveQueue>> create(SrqHandle handle, const CreateSrq& request,
                                                             const Limits& limits,
                                                             const guestmem::AddressSpace& memory,
                                                             EventSink& events);

  SavedSrq save() const;
  // `context` is the context of the saved PD. Returns null if a value is out of its range.
  static std::unique_ptr<SharedReceiveQueue> restore(const SavedSrq& saved, ContextHandle context,
                                                     const Limits& limits,
                                                     const guestmem::AddressSpace& memory, EventSink& events);

  // Takes one WQE. If fewer WQEs than a non-zero limit are left, it raises the limit event and sets the limit
  // to 0. An SRQ is made with few WQEs or none, so its first limit is compared only when one is taken.
  Taken take(ReceiveWork& out);

  // Raises the limit event at once if fewer WQEs are posted: the guest may wait for the event before it posts
  // any, and from an empty queue none is taken. Error: kInvalid if the limit is above max_wr.
  Outcome<> set_limit(std::uint32_t limit);

  SrqHandle handle() const { return handle_; }
  PdHandle pd() const { return pd_; }
  ContextHandle context() const { return context_; }
  std::uint32_t max_wr() const { return max_wr_; }
  std::uint32_t max_sge() const { return max_sge_; }
  std::uint32_t limit() const { return limit_; }
  std::size_t page_count() const { return queue_.page_count(); }
  std::uint32_t available() { return queue_.available(); }

  std::uint32_t references = 0;  // QPs that use it, counted by the engine
  Account::Holding held;         // this SRQ and its pages
  // The QPs whose peers pause because there was no WQE: the ring of their QueuePair::receiver_link.
  QueueLink<QueuePair> waiting{nullptr};

 private:
  void check_limit();
  SharedReceiveQueue(SrqHandle handle, const CreateSrq& request, ReceiveQueue queue, EventSink& events);

  SrqHandle handle_;
  PdHandle pd_;
  ContextHandle context_;
  ReceiveQueue queue_;
  EventSink& events_;
  std::uint32_t max_wr_;
  std::uint32_t max_sge_;
  std::uint32_t limit_;
};

}  // namespace pvrdma::verbs
