#include "verbs/engine.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "verbs/engine_impl.h"

namespace pvrdma::verbs {
namespace {

// The first slots for handles in doorbells and completions: 0 means "none" to the guest's provider, and QP
// handle 1 is the GSI QP.
constexpr std::uint32_t kFirstQpSlot = 2;
constexpr std::uint32_t kFirstSlot = 1;

// QPs that get a turn in one run(): bounds the time until the shard reads its sockets again.
constexpr int kTurnsPerRun = 4;

// Rings that one run() looks at because their doorbells may have been overwritten.
constexpr std::uint32_t kLooksPerRun = 64;

}  // namespace

Engine::Impl::Impl(const Limits& l, const Rules& r, const guestmem::AddressSpace& m, EventSink& e, Wire& wire,
                   Account& a, Counters& c, GidTable& gids)
    : limits(l),
      rules(r),
      memory(m),
      events(e),
      counters(c),
      account(a),
      contexts(l.max_context),
      pds(kFirstSlot, l.max_pd + 1),
      mrs(limits, m, a),
      cqs(kFirstSlot, l.max_cq),
      srqs(kFirstSlot, l.max_srq),
      qps(kFirstQpSlot, l.max_qp),
      mapped(c),
      loans(wire, mrs),
      services{limits, rules, memory, events, wire, counters, gids, mrs, qps, scheduler, share, loans},
      completions(services),
      requester(services, completions),
      responder(services, completions),
      datagrams(services, completions) {}

Engine::Engine(const Limits& limits, const Rules& rules, const guestmem::AddressSpace& memory,
               EventSink& events, SwitchPort& port, Account& account)
    : gids_(limits.gid_table_length, port),
      impl_(std::make_unique<Impl>(limits, rules, memory, events, port, account, counters_, gids_)) {
  PVRDMA_CHECK(limits.max_sge <= kSgeMax, "max_sge fits into the arrays of fixed size");
}

Engine::~Engine() = default;

Account& Engine::account() const {
  return impl_->account;
}

void Engine::reset() {
  const Services& s = impl_->services;
  impl_->loans.stop_all();
  gids_.clear();
  std::unique_ptr<Impl> fresh;
  try {
    graveyard_.reserve(graveyard_.size() + 1);
    fresh = std::make_unique<Impl>(impl_->limits, impl_->rules, s.memory, s.events, s.wire, impl_->account,
                                   counters_, gids_);
  } catch (const std::bad_alloc&) {
    // A guest's reset cannot be refused for want of memory: the tables are cleared and keep theirs.
    impl_->clear();
    return;
  }
  // Peers may still use the old QP numbers.
  fresh->qpn_generations = std::move(impl_->qpn_generations);
  fresh->qps.follow(impl_->qps);
  graveyard_.push_back(std::exchange(impl_, std::move(fresh)));
  has_dead_ = true;
  bury(kBuriedPerRun);
}

void Engine::bury(std::uint32_t budget) {
  if (!has_dead_) return;
  impl_->bury_removed(budget);
  while (budget != 0 && !graveyard_.empty()) {
    graveyard_.back()->bury_all(budget);
    if (budget != 0) graveyard_.pop_back();  // bury_all() has freed all of it
  }
  has_dead_ = budget == 0;
}

void Engine::Impl::bury_removed(std::uint32_t& budget) {
  verbs::bury(removed_qps, budget);
  verbs::bury(removed_srqs, budget);
  verbs::bury(removed_cqs, budget);
  mrs.bury_dropped(budget);
}

void Engine::Impl::bury_all(std::uint32_t& budget) {
  bury_removed(budget);
  qps.bury_all(budget);
  srqs.bury_all(budget);
  cqs.bury_all(budget);
  pds.bury_all(budget);
  mrs.bury_all(budget);
}

// Allocates nothing.
void Engine::Impl::clear() {
  qps.for_each([this](std::uint32_t, QueuePair& qp) { scheduler.forget(qp); });
  qps.clear();
  srqs.clear();
  cqs.clear();
  mrs.destroy_all();
  pds.clear();
  mapped.clear();
  std::fill(contexts.begin(), contexts.end(), false);
  ud_qp_count = 0;
}

// --- Doorbells ---

QueuePair* Engine::Impl::doorbell_qp(UarIndex uar, QpHandle handle) {
  QueuePair* qp = qps.find(handle.value);
  if (qp != nullptr && qp->identity.context.value == uar) return qp;
  ++counters.bad_doorbells;
  return nullptr;
}

void Engine::send_doorbell(UarIndex uar, QpHandle handle, Instant now) {
  QueuePair* qp = impl_->doorbell_qp(uar, handle);
  if (qp == nullptr) return;
  if (impl_->run_qp(*qp, now)) impl_->scheduler.make_ready(*qp);
  impl_->services.wire.flush(now);
}

// Receives are found when a message needs them. Only a QP in ERR, which flushes, has something to do now.
void Engine::receive_doorbell(UarIndex uar, QpHandle handle, Instant now) {
  QueuePair* qp = impl_->doorbell_qp(uar, handle);
  if (qp == nullptr) return;
  if (qp->receive.peer_pauses) [[unlikely]] {
    impl_->responder.on_receives_posted(*qp, now);
    impl_->services.wire.flush(now);
  }
  if (qp->state() != abi::QpState::kErr) return;
  if (impl_->run_qp(*qp, now)) impl_->scheduler.make_ready(*qp);
}

void Engine::srq_doorbell(UarIndex uar, SrqHandle handle, Instant now) {
  SharedReceiveQueue* srq = impl_->srqs.find(handle.value);
  if (srq == nullptr || srq->context().value != uar) {
    ++counters_.bad_doorbells;
    return;
  }
  if (!srq->waiting.linked()) [[likely]]
    return;
  impl_->responder.on_receives_posted(*srq, now);
  impl_->services.wire.flush(now);
}

void Engine::arm_cq(UarIndex uar, CqHandle handle, CompletionQueue::Arm what) {
  CompletionQueue* cq = impl_->cqs.find(handle.value);
  if (cq == nullptr || cq->context().value != uar) {
    ++counters_.bad_doorbells;
    return;
  }
  cq->arm(what);
}

std::uint64_t Engine::begin_look() {
  return impl_->mapped.watch().begin_look();
}

void Engine::cq_word_found(UarIndex uar, CqHandle named, std::uint64_t look_before) {
  MappedContext* context = impl_->mapped.find(ContextHandle(uar));
  if (context == nullptr) return;
  CompletionQueue* cq = impl_->cqs.find(named.value);
  if (cq != nullptr && cq->context().value != uar) cq = nullptr;
  impl_->mapped.watch().on_word(*context, cq, look_before);
}

void Engine::qp_word_found(UarIndex uar, QpHandle rung) {
  MappedContext* context = impl_->mapped.find(ContextHandle(uar));
  if (context != nullptr) impl_->mapped.on_qp_word(*context, rung);
}

// --- Messages ---

QueuePair* Engine::Impl::by_qpn(Qpn qpn) const {
  QueuePair* qp = qps.find(qpn.value & kQpnSlotMask);
  return qp != nullptr && qp->identity.qpn == qpn ? qp : nullptr;
}

void Engine::on_request(const Request& request, Payload& payload, Instant now) {
  if (is_timed()) [[unlikely]]
    return take_timed(request, payload, now);
  take(request, payload, now);
}

void Engine::on_response(const Response& response, Payload& payload, Instant now) {
  if (is_timed()) [[unlikely]]
    return take_timed(response, payload, now);
  take(response, payload, now);
}

void Engine::on_datagram(const Datagram& datagram, const guestmem::SpanList& payload, Instant now) {
  if (is_timed()) [[unlikely]]
    return take_timed(datagram, payload, now);
  take(datagram, payload, now);
}

void Engine::take(const Request& request, Payload& payload, Instant now) {
  QueuePair* qp = impl_->by_qpn(request.to.qpn);
  if (qp == nullptr || qp->identity.type != abi::QpType::kRc) {
    ++counters_.dropped_unknown_qp;
    return;
  }
  if (payload.is_ahead()) return impl_->responder.on_ahead(*qp, request, payload);
  if (impl_->services.wire.observer() != nullptr) [[unlikely]]
    return impl_->take_observed(*qp, request, payload, now);
  impl_->responder.on_request(*qp, request, payload, now);
}

void Engine::on_early_request(const Request& request, PeerPlace from, Instant now) {
  QueuePair* qp = impl_->by_qpn(request.to.qpn);
  if (qp != nullptr && !qp->is_datagram()) Responder::on_early(*qp, request, from, now);
}

void Engine::take(const Response& response, Payload& payload, Instant now) {
  QueuePair* qp = impl_->by_qpn(response.to.qpn);
  if (qp == nullptr || qp->identity.type != abi::QpType::kRc || !qp->is_between(response.from, response.to)) {
    ++counters_.dropped_unknown_qp;
    return;
  }
  if (impl_->services.wire.observer() != nullptr) [[unlikely]]
    return impl_->take_observed(*qp, response, payload, now);
  impl_->requester.on_response(*qp, response, payload, now);
}

void Engine::take(const Datagram& datagram, const guestmem::SpanList& payload, Instant now) {
  QueuePair* qp = impl_->by_qpn(datagram.to.qpn);
  if (qp == nullptr || !qp->is_datagram()) {
    ++counters_.dropped_unknown_qp;
    return;
  }
  if (MessageObserver* observer = impl_->services.wire.observer(); observer != nullptr) [[unlikely]] {
    observer->on_datagram(Direction::kInbound, datagram, payload, now);
  }
  impl_->datagrams.on_datagram(*qp, datagram, payload);
}

// --- News of the paths ---

void Engine::on_path_ready() {
  impl_->scheduler.wake_waiting();
}

void Engine::on_path_restored(const std::function<bool(const Endpoint& own, const Endpoint& peer)>& affected,
                              Instant now) {
  impl_->qps.for_each([&](std::uint32_t, QueuePair& qp) {
    if (qp.is_datagram() || !affected(qp.local(), qp.remote())) return;
    // With a path that carries packets, a QP that only answers sends nothing that would open its path: open
    // it here. The other QPs open theirs when they send.
    if (may_respond(qp.state()) && !(qp.path.is_open() && qp.path->leads_somewhere()))
      static_cast<void>(path_of(impl_->services, qp));
    impl_->responder.on_path_restored(qp, now);
    impl_->requester.on_path_restored(qp);
  });
}

void Engine::on_all_paths_restored(Instant now) {
  on_path_restored([](const Endpoint&, const Endpoint&) { return true; }, now);
}

void Engine::on_returned(Qpn qpn, std::uint32_t rkey) {
  QueuePair* qp = impl_->by_qpn(qpn);
  if (qp != nullptr) impl_->loans.give_answer_back(*qp, rkey);
}

void Engine::stop_loans() {
  impl_->loans.stop_all();
}

// --- Progress ---

bool Engine::Impl::run_qp(QueuePair& qp, Instant now) {
  switch (qp.state()) {
    case abi::QpState::kReset:
    case abi::QpState::kInit:
    case abi::QpState::kRtr:
      return false;
    case abi::QpState::kErr:
    case abi::QpState::kSqe:
      return completions.flush(qp);
    case abi::QpState::kRts:
    case abi::QpState::kSqd:
      return qp.is_datagram() ? datagrams.run(qp, now) : requester.run(qp, now);
  }
  return false;
}

void Engine::Impl::run_posted(QueuePair& qp, Instant now) {
  if (qp.context_link.linked() && run_qp(qp, now)) scheduler.make_ready(qp);
}

void Engine::Impl::look_for_hidden_work(Instant now) {
  for (std::uint32_t looks = 0; looks < kLooksPerRun && !share.spent(); ++looks) {
    QueuePair* qp = mapped.take_look();
    if (qp == nullptr) break;
    share.spend(1, 0);
    if (qp->receive.peer_pauses) [[unlikely]]
      responder.on_receives_posted(*qp, now);
    const abi::QpState state = qp->state();
    if (state == abi::QpState::kRts || state == abi::QpState::kSqd) {
      const guestmem::GuestRing::Used posted = qp->send.ring.used();
      if (posted.status == guestmem::RingStatus::kOk && posted.count == 0) continue;
      if (qp->send.window.empty() && !qp->waiting_link.linked()) ++counters.hidden_doorbells;
    }
    if (run_qp(*qp, now)) scheduler.make_ready(*qp);
  }
}

bool Engine::run(Instant now) {
  impl_->share.begin();
  if (impl_->mapped.any()) impl_->look_for_hidden_work(now);
  for (int turn = 0; turn < kTurnsPerRun && !impl_->share.spent(); ++turn) {
    QueuePair* qp = impl_->scheduler.take_ready();
    if (qp == nullptr) break;
    if (impl_->run_qp(*qp, now)) impl_->scheduler.make_ready(*qp);
  }
  impl_->services.wire.flush(now);
  bury(kBuriedPerRun);
  if (impl_->mapped.any()) impl_->mapped.watch().run(now);
  return impl_->scheduler.any_ready() || has_dead_ || impl_->mapped.next_deadline() == Instant{};
}

void Engine::on_time(Instant now) {
  while (QueuePair* qp = impl_->scheduler.take_due(now)) {
    if (qp->is_datagram()) {
      impl_->datagrams.on_time(*qp);
    } else {
      impl_->requester.on_time(*qp, now);
    }
  }
  impl_->mapped.watch().on_time(now);
  impl_->services.wire.flush(now);
}

Instant Engine::next_deadline() const {
  if (impl_->scheduler.any_ready() || has_dead_) return Instant{};
  return std::min(impl_->scheduler.next_deadline(), impl_->mapped.next_deadline());
}

// --- Views ---

const guestmem::AddressSpace& Engine::memory() const {
  return impl_->services.memory;
}

Engine::QpPage Engine::list_qps_from(std::uint32_t first) const {
  QpPage page;
  const std::uint32_t end = impl_->qps.end();
  std::uint32_t slot = std::min(first, end);
  const std::uint32_t page_end = slot + std::min(kSlotsPerPage, end - slot);
  for (std::uint32_t asked = 0; slot < page_end && asked < kPathsAskedPerPage; ++slot) {
    const QueuePair* const qp = impl_->qps.find(slot);
    if (qp == nullptr) continue;
    const bool has_path = qp->path.is_open() && impl_->services.wire.is_current(qp->path);
    const bool carries_packets = has_path && qp->path->carries_packets();
    const bool asks = carries_packets || (has_path && !qp->path->leads_somewhere());
    if (carries_packets) ++asked;
    page.qps.push_back({.qpn = qp->identity.qpn,
                        .handle = qp->identity.handle,
                        .type = qp->identity.type,
                        .context = qp->identity.context,
                        .attributes = qp->attributes,
                        .cap = qp->identity.cap,
                        .local_gid = qp->local_gid,
                        .path_trouble = asks ? qp->path->trouble() : std::string(),
                        .tx_messages = qp->tx_messages,
                        .tx_bytes = qp->tx_bytes,
                        .rx_messages = qp->rx_messages,
                        .rx_bytes = qp->rx_bytes,
                        .retransmits = qp->retransmits});
  }
  if (slot < end) page.next = slot;
  return page;
}

std::vector<QpInfo> Engine::list_qps() const {
  std::vector<QpInfo> all;
  for (std::optional<std::uint32_t> next = 0; next;) {
    QpPage page = list_qps_from(*next);
    all.insert(all.end(), page.qps.begin(), page.qps.end());
    next = page.next;
  }
  return all;
}

Engine::ObjectCounts Engine::object_counts() const {
  return impl_->object_counts();
}

Engine::ObjectCounts Engine::Impl::object_counts() const {
  std::uint32_t context_count = 0;
  for (const bool taken : contexts) context_count += taken ? 1 : 0;
  return {.contexts = context_count,
          .pds = pds.count(),
          .mrs = mrs.count(),
          .cqs = cqs.count(),
          .qps = qps.count(),
          .srqs = srqs.count()};
}

std::vector<UarIndex> Engine::contexts() const {
  return impl_->taken_contexts();
}

std::vector<UarIndex> Engine::Impl::taken_contexts() const {
  std::vector<UarIndex> out;
  for (UarIndex context = 0; context < contexts.size(); ++context) {
    if (contexts[context]) out.push_back(context);
  }
  return out;
}

}  // namespace pvrdma::verbs
