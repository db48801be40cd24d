// Engine's saving (ADR 16). See engine_loading.cc for loading.
#include <utility>

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
  Impl& impl = *impl_pointer;
  auto& [limits, rules, memory, events, counted, account, contexts, pds, mrs, cqs, srqs, qps, qpn_generations,
         ud_qp_count, removed_qps, removed_srqs, removed_cqs, mapped, scheduler, share, loans, services,
         completions, requester, responder, datagrams] = impl;

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
                          .next_pd = impl.pds.next_slot(),
                          .next_cq = impl.cqs.next_slot(),
                          .next_srq = impl.srqs.next_slot(),
                          .next_qp = impl.qps.next_slot(),
                          .qpn_generations = impl.qpn_generations});
      });
    case Part::kPds:
      return write_object(pds, kPdRecord, [](std::uint32_t slot, const ProtectionDomain& pd) {
        return SavedPd{.handle = PdHandle(slot), .context = pd.context};
      });
    case Part::kMrSlots:
      return write_once([&] { write(writer, kMrSlotsRecord, impl.mrs.save_slots()); });
    case Part::kMrs:
      return write_slot(mrs.slots_end(), [&](std::uint32_t slot) {
        std::optional<SavedMr> mr = impl.mrs.save_region(slot);
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
        const GidTable::Entry* const entry = engine_.gids_.at(index);
        if (entry != nullptr)
          write(writer, kGidRecord, SavedGid{.index = index, .gid = entry->gid, .roce = entry->roce});
        return entry != nullptr;
      });
    case Part::kCounters:
      return write_once([&] { write(writer, kCountersRecord, engine_.counters_); });
    case Part::kEnd:
      return write_once([&] { write(writer, kEngineEndRecord, impl.saved_counts()); });
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

SavedCounts Engine::Impl::saved_counts() const {
  return {
      .pds = pds.count(), .mrs = mrs.count(), .cqs = cqs.count(), .srqs = srqs.count(), .qps = qps.count()};
}

}  // namespace pvrdma::verbs
