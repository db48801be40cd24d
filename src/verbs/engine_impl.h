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

// A QP number, 24 bits: generation << kQpnSlotBits | slot of the QP table, which has fewer than 2^16
// (reference 2.3).
inline constexpr std::uint32_t kQpnSlotBits = 16;
inline constexpr std::uint32_t kQpnSlotMask = (1U << kQpnSlotBits) - 1;

inline constexpr std::uint32_t kGsiSlot = 1;
inline constexpr std::uint32_t kQpPagesMax = 65535;  // what CREATE_QP can say

struct ProtectionDomain {
  ContextHandle context;
  std::uint32_t references = 0;  // QPs and SRQs; MRs are counted by their table
};

struct QpRings {
  guestmem::RingShape send;
  std::optional<guestmem::RingShape> receive;  // none with an SRQ
};

// What a new QP refers to, and what its rings are.
struct QpParts {
  ProtectionDomain& pd;
  CompletionQueue& send_cq;
  CompletionQueue& recv_cq;
  SharedReceiveQueue* srq;  // null: none
  QpRings rings;
};

struct Engine::Impl {
  Impl(const Limits& limits, const Rules& rules, const guestmem::AddressSpace& memory, EventSink& events,
       Wire& wire, Account& account, Counters& counters, GidTable& gids);

  bool has_context(ContextHandle context) const {
    return context == kKernelContext || (context.value < contexts.size() && contexts[context.value]);
  }
  // The QP a doorbell means, if its author may ring it.
  QueuePair* doorbell_qp(UarIndex uar, QpHandle handle);
  QueuePair* by_qpn(Qpn qpn) const;
  QueuePair* by_ends(const Endpoint& local, const Endpoint& remote) const;
  // on_request() and on_response() while there is an observer (observed.cc).
  void take_observed(QueuePair& qp, const Request& request, Payload& payload, Instant now);
  void take_observed(QueuePair& qp, const Response& response, Payload& payload, Instant now);
  bool run_qp(QueuePair& qp, Instant now);
  // What a command changes about a QP comes after the work requests that were posted before it, although
  // nobody may have looked at their doorbells yet.
  void run_posted(QueuePair& qp, Instant now);
  // Looks at rings whose doorbells may have been hidden.
  void look_for_hidden_work(Instant now);

  // Whether the request's values go together.
  Outcome<QpParts> check_qp(const CreateQp& request) const;
  // The limits know no other of types but UD.
  bool has_room_for(abi::QpType type) const;
  QueuePair& insert_qp(const QueuePair::Identity& identity, const QpParts& parts,
                       guestmem::GuestRing send_ring, std::optional<guestmem::GuestRing> receive_ring,
                       Account::Holding held);

  // --- engine_state.cc. Each restores a new Impl's object; why not, null: it did. ---
  const char* restore(const SavedTables& saved);
  const char* restore(const SavedPd& saved);
  const char* restore(const SavedMr& saved);
  const char* restore(const SavedCq& saved);
  const char* restore(const SavedSrq& saved);
  const char* restore(const SavedQp& saved, Instant now);
  bool may_be_numbered(const QueuePair::Identity& identity) const;
  SavedCounts saved_counts() const;
  // All of it is there: it goes on.
  void wake();

  void remove_qp(QpHandle handle);
  void remove_all_of(ContextHandle context);

  // Gives memory of what remove_all_of() removed back, at most `budget` objects, and takes them off it.
  void bury_removed(std::uint32_t& budget);
  // The same for everything: this is not used any more.
  void bury_all(std::uint32_t& budget);
  // Drops every object at once. Allocates nothing.
  void clear();

  // The answer when there is no room in the table of such objects.
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
  std::vector<bool> contexts;  // by UAR index, which is the handle
  ObjectTable<ProtectionDomain> pds;
  MemoryRegionTable mrs;
  ObjectTable<CompletionQueue> cqs;
  ObjectTable<SharedReceiveQueue> srqs;
  ObjectTable<QueuePair> qps;
  std::vector<std::uint8_t> qpn_generations;  // by slot
  std::uint32_t ud_qp_count = 0;

  // Removed, and nobody refers to them.
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
