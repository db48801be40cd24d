// Engine's saving and loading (ADR 16).
#include <new>
#include <utility>

#include "base/check.h"
#include "state/reader.h"
#include "state/writer.h"
#include "verbs/describe.h"
#include "verbs/engine.h"
#include "verbs/engine_impl.h"
#include "verbs/engine_saving.h"

namespace pvrdma::verbs {
namespace {

// These parts of the engine keep no state from one turn to the next, so they are not saved.
static_assert(sizeof(Completions) == sizeof(void*) && sizeof(Requester) == 2 * sizeof(void*) &&
              sizeof(Responder) == 4 * sizeof(void*) && sizeof(DatagramService) == 2 * sizeof(void*));

template <typename Saved>
void write(state::Writer& writer, state::RecordKind kind, Saved saved) {
  writer.begin(kind);
  describe(writer, saved);
  writer.end();
}

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

void Engine::save(state::Writer& writer, Instant now) const {
  Saving saving(*this, now);
  while (saving.write_next(writer)) {
  }
}

bool Engine::Saving::write_next(state::Writer& writer) {
  while (!write_part(writer)) {
    if (part_ == Part::kEnd) return false;
    part_ = static_cast<Part>(static_cast<std::uint8_t>(part_) + 1);
    slot_ = 0;
  }
  return true;
}

template <typename Save>
bool Engine::Saving::write_slot(std::uint32_t end, Save save) {
  while (slot_ < end) {
    if (save(slot_++)) return true;
  }
  return false;
}

template <typename Save>
bool Engine::Saving::write_once(Save save) {
  return write_slot(1, [&save](std::uint32_t) { return save(), true; });
}

bool Engine::Saving::write_part(state::Writer& writer) {
  // Destroyed objects are not saved. Each turn begins a new share.
  const auto& [counters, gids, impl_pointer, party, graveyard, has_dead] = engine_;
  auto& [limits, rules, memory, events, counted, account, contexts, pds, mrs, cqs, srqs, qps, qpn_generations,
         ud_qp_count, removed_qps, removed_srqs, removed_cqs, mapped, scheduler, share, loans, services,
         completions, requester, responder, datagrams] = *impl_pointer;

  // Writes one object of a table.
  const auto write_object = [&](const auto& table, state::RecordKind kind, auto save) {
    return write_slot(table.end(), [&](std::uint32_t slot) {
      auto* const object = table.find(slot);
      if (object != nullptr) write(writer, kind, save(slot, *object));
      return object != nullptr;
    });
  };
  switch (part_) {
    case Part::kTables:
      return write_once([&] {
        write(writer, kTablesRecord,
              SavedTables{.contexts = engine_.contexts(),
                          .next_pd = pds.next_slot(),
                          .next_cq = cqs.next_slot(),
                          .next_srq = srqs.next_slot(),
                          .next_qp = qps.next_slot(),
                          .qpn_generations = qpn_generations});
      });
    case Part::kPds:
      return write_object(pds, kPdRecord, [](std::uint32_t slot, const ProtectionDomain& pd) {
        return SavedPd{.handle = PdHandle(slot), .context = pd.context};
      });
    case Part::kMrSlots:
      return write_once([&] { write(writer, kMrSlotsRecord, mrs.save_slots()); });
    case Part::kMrs:
      return write_slot(mrs.slots_end(), [&](std::uint32_t slot) {
        std::optional<SavedMr> mr = mrs.save_region(slot);
        if (mr) write(writer, kMrRecord, *std::move(mr));
        return mr.has_value();
      });
    case Part::kCqs:
      return write_object(cqs, kCqRecord, [](std::uint32_t, const CompletionQueue& cq) { return cq.save(); });
    case Part::kSrqs:
      return write_object(srqs, kSrqRecord,
                          [](std::uint32_t, const SharedReceiveQueue& srq) { return srq.save(); });
    case Part::kQps:
      return write_object(qps, kQpRecord, [this](std::uint32_t, QueuePair& qp) { return qp.save(now_); });
    case Part::kGids:
      return write_slot(static_cast<std::uint32_t>(gids.entries().size()), [&](std::uint32_t index) {
        const GidTable::Entry* const entry = gids.at(index);
        if (entry != nullptr)
          write(writer, kGidRecord, SavedGid{.index = index, .gid = entry->gid, .roce = entry->roce});
        return entry != nullptr;
      });
    case Part::kCounters:
      return write_once([&] { write(writer, kCountersRecord, counters); });
    case Part::kEnd:
      return write_once([&] { write(writer, kEngineEndRecord, impl_pointer->saved_counts()); });
  }
  return false;
}

void Engine::save_without_objects(state::Writer& writer) const {
  write(writer, kTablesRecord,
        SavedTables{.contexts = {},
                    .next_pd = impl_->pds.next_slot(),
                    .next_cq = impl_->cqs.next_slot(),
                    .next_srq = impl_->srqs.next_slot(),
                    .next_qp = impl_->qps.next_slot(),
                    .qpn_generations = {}});
  write(writer, kMrSlotsRecord, SavedMrSlots{.generations = {0}, .free = {}});  // key 0 belongs to no region
  write(writer, kCountersRecord, counters_);
  write(writer, kEngineEndRecord, SavedCounts{});
}

std::vector<UarIndex> Engine::contexts() const {
  std::vector<UarIndex> out;
  for (UarIndex context = 0; context < impl_->contexts.size(); ++context) {
    if (impl_->contexts[context]) out.push_back(context);
  }
  return out;
}

SavedCounts Engine::Impl::saved_counts() const {
  return {
      .pds = pds.count(), .mrs = mrs.count(), .cqs = cqs.count(), .srqs = srqs.count(), .qps = qps.count()};
}

Result<> Engine::load(state::Reader& reader, Instant now) {
  const ObjectCounts before = object_counts();
  PVRDMA_CHECK(before.contexts + before.pds == 0, "load() is called on an empty engine");
  const Services& s = impl_->services;
  std::unique_ptr<Impl> fresh;
  Counters counters;
  try {
    bury(UINT32_MAX);  // the budget of destroyed objects must not be a reason to refuse
    graveyard_.reserve(graveyard_.size() + 1);
    fresh = std::make_unique<Impl>(impl_->limits, impl_->rules, s.memory, s.events, s.wire, impl_->account,
                                   counters_, gids_);
    load_into(*fresh, reader, counters, now);
  } catch (const std::bad_alloc&) {
    reader.refuse("there is no memory for it");
  }
  if (reader.failed()) {
    gids_.clear();
  } else {
    std::swap(impl_, fresh);
    counters_ = counters;
    impl_->wake();
  }
  if (fresh != nullptr) graveyard_.push_back(std::move(fresh));
  has_dead_ = true;
  return reader.result();
}

void Engine::unload(const Counters& counters_before) {
  PVRDMA_CHECK(!graveyard_.empty(), "unload() directly follows a load()");
  gids_.clear();
  std::swap(impl_, graveyard_.back());
  counters_ = counters_before;
}

// Binds GIDs at once: they belong to the engine, not to the new tables.
void Engine::load_into(Impl& fresh, state::Reader& reader, Counters& counters, Instant now) {
  state::RecordKind last{};
  std::uint32_t once = 0;
  while (const std::optional<state::Reader::Record> record = reader.next()) {
    const state::RecordKind kind = record->kind;
    if (kind.kind < last.kind || (kind == last && is_once(kind)))
      return reader.refuse("a record is out of order");
    last = kind;
    if (is_once(kind)) ++once;
    if (kind == kTablesRecord) {
      read<SavedTables>(reader, [&](const SavedTables& saved) { return fresh.restore(saved); });
    } else if (kind == kPdRecord) {
      read<SavedPd>(reader, [&](const SavedPd& saved) { return fresh.restore(saved); });
    } else if (kind == kMrSlotsRecord) {
      read<SavedMrSlots>(reader, [&](const SavedMrSlots& saved) {
        return fresh.mrs.restore_slots(saved) ? nullptr : "the slots of memory regions are invalid";
      });
    } else if (kind == kMrRecord) {
      read<SavedMr>(reader, [&](const SavedMr& saved) { return fresh.restore(saved); });
    } else if (kind == kCqRecord) {
      read<SavedCq>(reader, [&](const SavedCq& saved) { return fresh.restore(saved); });
    } else if (kind == kSrqRecord) {
      read<SavedSrq>(reader, [&](const SavedSrq& saved) { return fresh.restore(saved); });
    } else if (kind == kQpRecord) {
      read<SavedQp>(reader, [&](SavedQp& saved) { return fresh.restore(saved, now); });
    } else if (kind == kGidRecord) {
      read<SavedGid>(reader, [this](const SavedGid& saved) {
        const bool is_free = gids_.at(saved.index) == nullptr;
        return is_free && bind_gid(saved.index, saved.gid, saved.roce) ? nullptr : "a GID cannot be bound";
      });
    } else if (kind == kCountersRecord) {
      describe(reader, counters);
    } else if (kind == kEngineEndRecord) {
      return read<SavedCounts>(reader, [&](const SavedCounts& saved) {
        return once == 3 && saved == fresh.saved_counts() && fresh.mrs.is_whole()
                   ? nullptr
                   : "an engine's records are missing";
      });
    } else {
      reader.skip(*record);
    }
  }
  reader.refuse("the end of the engine's records is missing");
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
