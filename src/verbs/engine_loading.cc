// Engine's loading (ADR 16).
#include "verbs/engine_loading.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "verbs/describe.h"
#include "verbs/engine_impl.h"

namespace pvrdma::verbs {
namespace {

constexpr const char* kNoGid = "a GID cannot be bound";

// Reads one record's value and restores it. After a read fault it restores nothing.
template <typename Saved, typename Restore>
void read(state::Reader& reader, Restore restore) {
  Saved saved;
  describe(reader, saved);
  if (reader.failed()) return;
  if (const char* why = restore(saved); why != nullptr) reader.refuse(why);
}

constexpr bool is_once(state::RecordKind kind) {
  return kind == kTablesRecord || kind == kMrSlotsRecord || kind == kCountersRecord;
}

}  // namespace

Engine::Loading::Loading(Engine& engine, Instant now) : engine_(engine), now_(now) {
  const ObjectCounts before = engine.object_counts();
  PVRDMA_CHECK(before.contexts + before.pds == 0, "only an empty engine loads");
}

Engine::Loading::~Loading() {
  if (fresh_ == nullptr) return;
  try {
    engine_.graveyard_.push_back(std::move(fresh_));
    engine_.has_dead_ = true;
  } catch (const std::bad_alloc&) {  // its objects are destroyed in one go
  }
}

bool Engine::Loading::read_next(state::Reader& reader) {
  try {
    if (fresh_ != nullptr) return read_record(reader);
    // The budget of destroyed objects must not be a reason to refuse.
    if (engine_.has_dead_) {
      engine_.bury(kBuriedPerRun);
      return true;
    }
    const Impl& old = *engine_.impl_;
    const Services& s = old.services;
    engine_.graveyard_.reserve(1);
    fresh_ = std::make_unique<Impl>(old.limits, old.rules, s.memory, s.events, s.wire, engine_.impl_->account,
                                    engine_.counters_, engine_.gids_);
    return true;
  } catch (const std::bad_alloc&) {
    reader.refuse(kNoMemory);
    return false;
  }
}

bool Engine::Loading::read_record(state::Reader& reader) {
  const std::optional<state::Reader::Record> record = reader.next();
  if (!record) {
    reader.refuse("the end of the engine's records is missing");
    return false;
  }
  const state::RecordKind kind = record->kind;
  if (kind.kind < last_.kind || (kind == last_ && is_once(kind))) {
    reader.refuse("a record is out of order");
    return false;
  }
  last_ = kind;
  if (is_once(kind)) ++once_;
  if (kind == kTablesRecord) {
    read<SavedTables>(reader, [this](const SavedTables& saved) { return fresh_->restore(saved); });
  } else if (kind == kPdRecord) {
    read<SavedPd>(reader, [this](const SavedPd& saved) { return fresh_->restore(saved); });
  } else if (kind == kMrSlotsRecord) {
    read<SavedMrSlots>(reader, [this](const SavedMrSlots& saved) {
      return fresh_->mrs.restore_slots(saved) ? nullptr : "the slots of memory regions are invalid";
    });
  } else if (kind == kMrRecord) {
    read<SavedMr>(reader, [this](const SavedMr& saved) { return fresh_->restore(saved); });
  } else if (kind == kCqRecord) {
    read<SavedCq>(reader, [this](const SavedCq& saved) { return fresh_->restore(saved); });
  } else if (kind == kSrqRecord) {
    read<SavedSrq>(reader, [this](const SavedSrq& saved) { return fresh_->restore(saved); });
  } else if (kind == kQpRecord) {
    read<SavedQp>(reader, [this](SavedQp& saved) { return fresh_->restore(saved, now_); });
  } else if (kind == kGidRecord) {
    read<SavedGid>(reader, [this](const SavedGid& saved) { return keep(saved); });
  } else if (kind == kCountersRecord) {
    describe(reader, counters_);
  } else if (kind == kEngineEndRecord) {
    read<SavedCounts>(reader, [this](const SavedCounts& saved) {
      return once_ == 3 && saved == fresh_->saved_counts() && fresh_->mrs.is_whole()
                 ? nullptr
                 : "an engine's records are missing";
    });
    is_whole_ = !reader.failed();
    return false;
  } else {
    reader.skip(*record);
  }
  return !reader.failed();
}

const char* Engine::Loading::keep(const SavedGid& saved) {
  const bool is_new =
      std::ranges::none_of(gids_, [&saved](const SavedGid& other) { return other.index == saved.index; });
  if (!is_new || saved.index >= engine_.gids_.entries().size()) return kNoGid;
  gids_.push_back(saved);
  return nullptr;
}

bool Engine::Loading::is_empty() const {
  const ObjectCounts counts = fresh_->object_counts();
  return gids_.empty() &&
         counts.contexts + counts.pds + counts.mrs + counts.cqs + counts.qps + counts.srqs == 0;
}

std::vector<UarIndex> Engine::Loading::contexts() const {
  return fresh_->taken_contexts();
}

void Engine::Loading::finish(state::Reader& reader) {
  if (reader.failed()) return;
  PVRDMA_CHECK(is_whole_, "read_next() has read the last record");
  try {
    for (const auto& [index, gid, roce] : gids_) {
      if (!engine_.bind_gid(index, gid, roce)) reader.refuse(kNoGid);
    }
  } catch (const std::bad_alloc&) {
    reader.refuse(kNoMemory);
  }
  if (reader.failed()) {
    engine_.gids_.clear();
    return;
  }
  std::swap(engine_.impl_, fresh_);
  engine_.counters_ = counters_;
  engine_.impl_->wake();
}

const char* Engine::Impl::restore(const SavedTables& saved) {
  const auto& [contexts_taken, next_pd, next_cq, next_srq, next_qp, generations] = saved;
  for (const std::uint32_t context : contexts_taken) {
    if (context == kKernelContext.value || context >= contexts.size() || contexts[context])
      return "a context is invalid or is named twice";
    if (rules.mapped_doorbells) mapped.open(ContextHandle(context), contexts.size());
    contexts[context] = true;
  }
  const bool cursors_ok =
      pds.go_on_at(next_pd) && cqs.go_on_at(next_cq) && srqs.go_on_at(next_srq) && qps.go_on_at(next_qp);
  if (!cursors_ok || generations.size() > limits.max_qp) return "more objects than this adapter allows";
  qpn_generations = generations;
  return nullptr;
}

const char* Engine::Impl::restore(const SavedPd& saved) {
  const auto& [handle, context] = saved;
  if (!pds.may_hand_out(handle.value) || pds.find(handle.value) != nullptr || !has_context(context))
    return "a PD's handle or context is invalid";
  pds.insert_at(handle.value, std::make_unique<ProtectionDomain>(ProtectionDomain{.context = context}));
  return nullptr;
}

const char* Engine::Impl::restore(const SavedMr& saved) {
  const ProtectionDomain* pd = pds.find(saved.pd.value);
  const bool restored = pd != nullptr && mrs.restore(saved, pd->context == kKernelContext);
  return restored ? nullptr : "a memory region is invalid, or a budget is used up";
}

const char* Engine::Impl::restore(const SavedCq& saved) {
  const std::uint32_t slot = saved.handle.value;
  if (!cqs.may_hand_out(slot) || cqs.find(slot) != nullptr || !has_context(saved.context))
    return "a CQ's handle or context is invalid";
  std::unique_ptr<CompletionQueue> cq = CompletionQueue::restore(saved, limits, memory, events);
  if (cq == nullptr) return "a CQ's values are invalid";
  auto held = account.take(Budget::kCqs, static_cast<std::uint32_t>(cq->page_count()));
  if (!held) return "the budget of CQs is used up";
  cq->held = *std::move(held);
  mapped.add(cqs.insert_at(slot, std::move(cq)));
  return nullptr;
}

const char* Engine::Impl::restore(const SavedSrq& saved) {
  const std::uint32_t slot = saved.handle.value;
  ProtectionDomain* pd = pds.find(saved.pd.value);
  if (!srqs.may_hand_out(slot) || srqs.find(slot) != nullptr || pd == nullptr)
    return "an SRQ's handle or PD is invalid";
  std::unique_ptr<SharedReceiveQueue> srq =
      SharedReceiveQueue::restore(saved, pd->context, limits, memory, events);
  if (srq == nullptr) return "an SRQ's values are invalid";
  auto held = account.take(Budget::kSrqs, static_cast<std::uint32_t>(srq->page_count()));
  if (!held) return "the budget of SRQs is used up";
  srq->held = *std::move(held);
  srqs.insert_at(slot, std::move(srq));
  ++pd->references;
  return nullptr;
}

// Whether the table could have created a QP with that number in that slot, given the numbers assigned so far.
bool Engine::Impl::may_be_numbered(const QueuePair::Identity& identity) const {
  const std::uint32_t slot = identity.handle.value;
  if (identity.type == abi::QpType::kGsi) return slot == kGsiSlot && identity.qpn == kGsiQpn;
  if (!qps.may_hand_out(slot)) return false;
  if (rules.qp_handle_is_qpn) return identity.qpn.value == slot;
  const std::uint32_t generation = identity.qpn.value >> kQpnSlotBits;
  return (identity.qpn.value & kQpnSlotMask) == slot && slot < qpn_generations.size() &&
         qpn_generations[slot] == ((generation + 1) & 0xff);
}

const char* Engine::Impl::restore(const SavedQp& saved, Instant now) {
  QueuePair::Identity identity = saved.identity;
  const abi::QpCap& cap = identity.cap;
  const std::size_t send_pages = saved.send_ring.pages.size();
  if (!may_be_numbered(identity) || qps.find(identity.handle.value) != nullptr)
    return "a QP's handle or number is invalid";
  if (cap.max_inline_data != 0 || cap.reserved != 0 || saved.charged_pages > kQpPagesMax || send_pages == 0)
    return "a QP's sizes are invalid";
  const Outcome<QpParts> parts = check_qp({.pd = identity.pd,
                                           .send_cq = saved.send_cq,
                                           .recv_cq = saved.recv_cq,
                                           .has_srq = saved.has_srq,
                                           .srq = saved.srq,
                                           .type = identity.type,
                                           .max_send_wr = cap.max_send_wr,
                                           .max_recv_wr = cap.max_recv_wr,
                                           .max_send_sge = cap.max_send_sge,
                                           .max_recv_sge = cap.max_recv_sge,
                                           .signal_all = identity.signal_all,
                                           .total_pages = saved.charged_pages,
                                           .send_pages = static_cast<std::uint32_t>(send_pages - 1),
                                           .page_directory = 0});
  if (!parts) return "a QP's objects or sizes are invalid";
  if (!has_room_for(identity.type)) return "more UD QPs than this adapter allows";
  auto held = account.take(Budget::kQps, saved.charged_pages);
  if (!held) return "the budget of QPs is used up";

  auto send_ring = guestmem::GuestRing::restore(memory, saved.send_ring, parts->rings.send);
  std::optional<guestmem::GuestRing> receive_ring;
  if (std::optional<guestmem::RingShape> shape = parts->rings.receive) {
    shape->first_page = 1;  // the saved ring has the state page and its own data pages
    receive_ring = guestmem::GuestRing::restore(memory, saved.receive_ring, *shape);
  }
  const bool rings_ok = send_ring && receive_ring.has_value() == parts->rings.receive.has_value();
  if (!rings_ok) return "a QP's rings are invalid";
  identity.context = parts->pd.context;
  QueuePair& qp =
      insert_qp(identity, *parts, std::move(*send_ring), std::move(receive_ring), *std::move(held));
  return qp.restore(saved, rules, limits, now);
}

void Engine::Impl::wake() {
  qps.for_each([this](std::uint32_t, QueuePair& qp) {
    if (qp.state() != abi::QpState::kReset) scheduler.make_ready(qp);
    if (qp.is_datagram()) return;
    if (may_respond(qp.state())) static_cast<void>(path_of(services, qp));
    const Instant due = std::min({qp.send.ack_deadline, qp.send.rnr_until, qp.send.repeat_at});
    if (due != Instant::never()) scheduler.arm(qp, due);
  });
  // Any doorbell may have been overwritten before the load: look at every QP, and treat every CQ as maybe
  // armed.
  for (std::uint32_t context = 0; context < contexts.size(); ++context) {
    MappedContext* one = mapped.find(ContextHandle(context));
    if (one == nullptr) continue;
    mapped.watch().on_word(*one, nullptr, 0);
    mapped.on_qp_word(*one, QpHandle());
  }
  cqs.for_each([](std::uint32_t, CompletionQueue& cq) {
    if (cq.watched.by != nullptr && cq.unannounced()) cq.watched.by->on_pushed(cq);
  });
}

}  // namespace pvrdma::verbs
