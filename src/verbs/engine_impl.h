// Engine::Impl: the tables and parts behind engine.h. Included by engine*.cc only. Thread: shard-owned.
#pragma once

#include "verbs/account.h"
#include "verbs/completion.h"
#include "verbs/datagram.h"
#include "verbs/engine.h"
#include "verbs/mapped_doorbells.h"
#include "verbs/object_table.h"
#include "verbs/queue_pair.h"
#include "verbs/requester.h"
#include "verbs/responder.h"
#include "verbs/saved.h"
#include "verbs/scheduler.h"
#include "verbs/services.h"

namespace pvrdma::verbs {

// A QP number has 24 bits: generation << kQpnSlotBits | slot. The QP table has fewer than 2^16 slots
// (reference 2.3).
inline constexpr std::uint32_t kQpnSlotBits = 16;
inline constexpr std::uint32_t kQpnSlotMask = (1U << kQpnSlotBits) - 1;

inline constexpr std::uint32_t kGsiSlot = 1;
inline constexpr std::uint32_t kQpPagesMax = 65535;  // the largest number that CREATE_QP can express

struct ProtectionDomain {
  ContextHandle context;
  std::uint32_t references = 0;  // by QPs and SRQs; the MR table counts MRs
};

struct QpRings {
  guestmem::RingShape send;
  std::optional<guestmem::RingShape> receive;  // nothing if the QP uses an SRQ
};

// The objects that a new QP refers to, and the shapes of its rings.
struct QpParts {
  ProtectionDomain& pd;
  CompletionQueue& send_cq;
  CompletionQueue& recv_cq;
  SharedReceiveQueue* srq;  // null: the QP has its own receive queue
  QpRings rings;
};

struct Engine::Impl {
  Impl(const Limits& limits, const Rules& rules, const guestmem::AddressSpace& memory, EventSink& events,
       Wire& wire, Account& account, Counters& counters, GidTable& gids);

  bool has_context(ContextHandle context) const {
    return context == kKernelContext || (context.value < contexts.size() && contexts[context.value]);
  }
  // The QP that a doorbell names, if the doorbell's author may ring it.
  QueuePair* doorbell_qp(UarIndex uar, QpHandle handle);
  QueuePair* by_qpn(Qpn qpn) const;
  QueuePair* by_ends(const Endpoint& local, const Endpoint& remote) const;
  // Do the work of on_request() and on_response() while there is an observer (observed.cc).
  void take_observed(QueuePair& qp, const Request& request, Payload& payload, Instant now);
  void take_observed(QueuePair& qp, const Response& response, Payload& payload, Instant now);
  bool run_qp(QueuePair& qp, Instant now);
  // Runs work requests that were posted before a command changes the QP: their doorbells may not have been
  // looked at yet.
  void run_posted(QueuePair& qp, Instant now);
  // Looks at rings whose doorbells may have been overwritten.
  void look_for_hidden_work(Instant now);

  // Checks that the request's values are consistent.
  Outcome<QpParts> check_qp(const CreateQp& request) const;
  // Whether one more QP of this type is allowed. Limits::max_ud_qp bounds UD QPs; the other types have no
  // bound of their own.
  bool has_room_for(abi::QpType type) const;
  bool may_connect(QueuePair& qp);
  QueuePair& insert_qp(const QueuePair::Identity& identity, const QpParts& parts,
                       guestmem::GuestRing send_ring, std::optional<guestmem::GuestRing> receive_ring,
                       Account::Holding held);

  ObjectCounts object_counts() const;
  SavedCounts saved_counts() const;
  std::vector<UarIndex> taken_contexts() const;

  // --- engine_loading.cc. Each function restores one object of a new Impl. It returns the reason for a
  // refusal, or null. ---
  const char* restore(const SavedTables& saved);
  const char* restore(const SavedPd& saved);
  const char* restore(const SavedMr& saved);
  const char* restore(const SavedCq& saved);
  const char* restore(const SavedSrq& saved);
  const char* restore(const SavedQp& saved, Instant now);
  bool may_be_numbered(const QueuePair::Identity& identity) const;
  // Everything is restored: starts timers and looks for work.
  void wake();

  void remove_qp(QpHandle handle);
  void remove_all_of(ContextHandle context);

  // Frees memory of what remove_all_of() removed: at most `budget` objects, which it subtracts from `budget`.
  void bury_removed(std::uint32_t& budget);
  // Like bury_removed(), for all objects of an Impl that is no longer used.
  void bury_all(std::uint32_t& budget);
  // Drops every object at once without allocating.
  void clear();

  // The refusal when the table of such objects is full.
  tl::unexpected<CommandError> refuse_full(Budget object) {
    account.table_full(object);
    return refuse(CommandError::kNoMemory);
  }

  const Limits limits;
  const Rules rules;
  const guestmem::AddressSpace& memory;
  EventSink& events;
  Counters& counters;

  Account& account;
  std::vector<bool> contexts;  // by UAR index, which is also the handle
  ObjectTable<ProtectionDomain> pds;
  MemoryRegionTable mrs;
  ObjectTable<CompletionQueue> cqs;
  ObjectTable<SharedReceiveQueue> srqs;
  ObjectTable<QueuePair> qps;
  std::vector<std::uint8_t> qpn_generations;  // by slot
  std::uint32_t ud_qp_count = 0;

  // Removed objects, to which nothing refers any more.
  std::vector<std::unique_ptr<QueuePair>> removed_qps;
  std::vector<std::unique_ptr<SharedReceiveQueue>> removed_srqs;
  std::vector<std::unique_ptr<CompletionQueue>> removed_cqs;

  MappedDoorbells mapped;
  Scheduler scheduler;
  TurnShare share;
  Loans loans;
  Services services;
  Completions completions;
  Requester requester;
  Responder responder;
  DatagramService datagrams;
};

}  // namespace pvrdma::verbs
