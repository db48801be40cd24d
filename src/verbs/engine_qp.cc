// Engine's commands on QPs.
#include <bit>
#include <utility>

#include "abi/wqe.h"
#include "guestmem/page_directory.h"
#include "guestmem/ring.h"
#include "verbs/engine.h"
#include "verbs/engine_impl.h"

namespace pvrdma::verbs {
namespace {

bool is_ring_size(std::uint32_t wqes, std::uint32_t limit) {
  return std::has_single_bit(wqes) && wqes <= limit;
}

// The numbers in CREATE_QP come from a user process through a driver that checks few of them (reference 7.2).
Outcome<QpRings> check_shape(const CreateQp& request, std::uint32_t max_wr, const Limits& limits) {
  const bool sizes_ok = is_ring_size(request.max_send_wr, max_wr) && request.max_send_sge <= limits.max_sge &&
                        request.max_recv_sge <= limits.max_sge &&
                        (request.has_srq || is_ring_size(request.max_recv_wr, max_wr));
  const auto send_stride = abi::send_wqe_stride(request.max_send_sge);
  const auto recv_stride = abi::recv_wqe_stride(request.max_recv_sge);
  if (!sizes_ok || !send_stride || !recv_stride) return refuse(CommandError::kInvalid);

  QpRings rings{.send = {.role = guestmem::RingRole::kConsumer,
                         .words = guestmem::RingWords::kTx,
                         .first_page = 1,
                         .element_count = request.max_send_wr,
                         .stride_bytes = *send_stride},
                .receive = std::nullopt};
  std::uint64_t needed_pages = 1 + std::uint64_t{request.send_pages};
  if (!request.has_srq) {
    rings.receive = {.role = guestmem::RingRole::kConsumer,
                     .words = guestmem::RingWords::kRx,
                     .first_page = 1 + request.send_pages,
                     .element_count = request.max_recv_wr,
                     .stride_bytes = *recv_stride};
    needed_pages += rings.receive->data_pages();
  }
  if (rings.send.data_pages() > request.send_pages || needed_pages > request.total_pages) {
    return refuse(CommandError::kInvalid);
  }
  return rings;
}

}  // namespace

Outcome<CreatedQp> Engine::create_qp(const CreateQp& request) {
  return with_room([&] { return make_qp(request); });
}

Outcome<QpParts> Engine::Impl::check_qp(const CreateQp& request) const {
  const bool known_type = request.type == abi::QpType::kRc || request.type == abi::QpType::kUd ||
                          request.type == abi::QpType::kGsi;
  if (!known_type) return refuse(CommandError::kNotSupported);

  ProtectionDomain* pd = pds.find(request.pd.value);
  CompletionQueue* send_cq = cqs.find(request.send_cq.value);
  CompletionQueue* recv_cq = cqs.find(request.recv_cq.value);
  SharedReceiveQueue* srq = request.has_srq ? srqs.find(request.srq.value) : nullptr;
  if (pd == nullptr || send_cq == nullptr || recv_cq == nullptr || (request.has_srq && srq == nullptr)) {
    return refuse(CommandError::kNoSuchObject);
  }
  const bool one_context = send_cq->context() == pd->context && recv_cq->context() == pd->context &&
                           (srq == nullptr || srq->context() == pd->context);
  const bool is_gsi = request.type == abi::QpType::kGsi;
  if (!one_context || (is_gsi && pd->context != kKernelContext)) return refuse(CommandError::kNotPermitted);

  const bool is_kernel = pd->context == kKernelContext;
  const auto rings = check_shape(request, is_kernel ? limits.max_qp_wr : limits.max_user_qp_wr, limits);
  if (!rings) return refuse(rings.error());
  return QpParts{*pd, *send_cq, *recv_cq, srq, *rings};
}

bool Engine::Impl::has_room_for(abi::QpType type) const {
  return type != abi::QpType::kUd || limits.max_ud_qp == 0 || ud_qp_count < limits.max_ud_qp;
}

QueuePair& Engine::Impl::insert_qp(const QueuePair::Identity& identity, const QpParts& parts,
                                   guestmem::GuestRing send_ring,
                                   std::optional<guestmem::GuestRing> receive_ring, Account::Holding held) {
  ReceiveSide receive;
  receive.srq = parts.srq;
  if (receive_ring) receive.queue.emplace(std::move(*receive_ring), identity.cap.max_recv_sge);
  scheduler.reserve(qps.count() + 1);
  QueuePair& qp =
      qps.insert_at(identity.handle.value,
                    std::make_unique<QueuePair>(identity, parts.send_cq, parts.recv_cq,
                                                SendSide(std::move(send_ring), identity.cap.max_send_sge),
                                                std::move(receive)));
  qp.held = std::move(held);
  mapped.add(qp);
  ++parts.pd.references;
  ++parts.send_cq.references;
  ++parts.recv_cq.references;
  if (parts.srq != nullptr) ++parts.srq->references;
  if (identity.type == abi::QpType::kUd) ++ud_qp_count;
  return qp;
}

Outcome<CreatedQp> Engine::make_qp(const CreateQp& request) {
  Impl& impl = *impl_;
  const Outcome<QpParts> parts = impl.check_qp(request);
  if (!parts) return refuse(parts.error());

  const bool is_gsi = request.type == abi::QpType::kGsi;
  const std::optional<std::uint32_t> slot = is_gsi ? std::optional(kGsiSlot) : impl.qps.free_slot();
  if (!slot) return impl.refuse_full(Budget::kQps);
  if (!impl.has_room_for(request.type)) return refuse(CommandError::kNoMemory);
  if (is_gsi && impl.qps.find(kGsiSlot) != nullptr) return refuse(CommandError::kBusy);

  auto held = impl.account.take(Budget::kQps, request.total_pages);
  if (!held) return refuse(CommandError::kNoMemory);
  guestmem::PageList pages;
  if (guestmem::read_page_directory(impl.memory, guestmem::GuestPhys(request.page_directory),
                                    request.total_pages, kQpPagesMax,
                                    pages) != guestmem::DirectoryStatus::kOk) {
    return refuse(CommandError::kBadAddress);
  }
  auto send_ring = guestmem::GuestRing::create(impl.memory, pages, parts->rings.send);
  if (!send_ring) return refuse(CommandError::kInvalid);
  std::optional<guestmem::GuestRing> receive_ring;
  if (parts->rings.receive) {
    receive_ring = guestmem::GuestRing::create(impl.memory, pages, *parts->rings.receive);
    if (!receive_ring) return refuse(CommandError::kInvalid);
  }

  // QP numbers are reused as late as possible, so that a stray message finds no QP. Device versions below 20
  // have no separate handle, which leaves no room for generations.
  Qpn qpn(*slot);
  if (!is_gsi && !impl.rules.qp_handle_is_qpn) {
    if (impl.qpn_generations.size() <= *slot) impl.qpn_generations.resize(*slot + 1);
    const std::uint32_t generation = impl.qpn_generations[*slot]++;
    qpn = Qpn(generation << kQpnSlotBits | *slot);
  }
  impl.insert_qp({.qpn = qpn,
                  .handle = QpHandle(*slot),
                  .type = request.type,
                  .pd = request.pd,
                  .context = parts->pd.context,
                  .signal_all = request.signal_all,
                  .cap = {.max_send_wr = request.max_send_wr,
                          .max_recv_wr = request.max_recv_wr,
                          .max_send_sge = request.max_send_sge,
                          .max_recv_sge = request.max_recv_sge,
                          .max_inline_data = 0,
                          .reserved = 0}},
                 *parts, std::move(*send_ring), std::move(receive_ring), *std::move(held));
  return CreatedQp{.qpn = qpn, .handle = QpHandle(*slot)};
}

// Opens the QP's path. Returns false if a budget does not allow the connection; the account names it.
bool Engine::Impl::may_connect(QueuePair& qp) {
  account.forget_refusal();
  static_cast<void>(path_of(services, qp));
  return !account.has_refusal();
}

Outcome<> Engine::modify_qp(QpHandle handle, const ModifyQp& request, Instant now) {
  QueuePair* qp = impl_->qps.find(handle.value);
  if (qp == nullptr) return refuse(CommandError::kNoSuchObject);
  impl_->run_posted(*qp, now);
  const abi::QpState before = qp->state();
  const auto wanted = apply_modify(qp->identity.type, qp->attributes, request, impl_->limits);
  if (!wanted) return refuse(wanted.error());

  if (wanted->state == abi::QpState::kReset) {
    impl_->loans.stop(*qp);
    impl_->scheduler.forget(*qp);
    qp->reset();
    return {};
  }
  if ((request.mask & abi::kQpAttrAv) != 0 && qp->identity.type == abi::QpType::kRc) {
    const GidTable::Entry* local = gids_.at(wanted->sgid_index);
    if (local == nullptr) return refuse(CommandError::kInvalid);
    impl_->loans.stop(*qp);  // before the connection's ends change
    qp->path.close();
    const QpAttributes former = std::exchange(qp->attributes, *wanted);
    const Gid former_gid = std::exchange(qp->local_gid, local->gid);
    const RoceVersion former_roce = std::exchange(qp->local_roce, local->roce);
    if (wanted->state == abi::QpState::kRtr && !impl_->may_connect(*qp)) {
      qp->path.close();
      qp->attributes = former;
      qp->local_gid = former_gid;
      qp->local_roce = former_roce;
      return refuse(CommandError::kNoMemory);
    }
  }

  qp->attributes = *wanted;
  // Both counts start with the PSNs that the guests have exchanged, so that messages of an older connection
  // do not match.
  if ((request.mask & abi::kQpAttrRqPsn) != 0) {
    qp->receive.psn = wanted->rq_psn;
    qp->receive.expected = MessageNumber(wanted->rq_psn.value);
  }
  if ((request.mask & abi::kQpAttrSqPsn) != 0) {
    qp->send.next_psn = wanted->sq_psn;
    qp->send.next_number = MessageNumber(wanted->sq_psn.value);
  }
  if (wanted->state == abi::QpState::kErr && before != abi::QpState::kErr) {
    impl_->loans.stop(*qp);
    qp->send.ack_deadline = Instant::never();
    qp->send.rnr_until = Instant::never();
    qp->send.repeat_at = Instant::never();
  }
  if (wanted->state == abi::QpState::kRts && before != abi::QpState::kRts) {
    qp->send.retries_left = wanted->retry_cnt;
    qp->send.rnr_retries_left = wanted->rnr_retry;
    qp->send.path_retries_left = wanted->retry_cnt;
  }
  if (wanted->state == abi::QpState::kSqd && before != abi::QpState::kSqd) qp->send.drained_reported = false;
  // Pending work starts (RTS), drains (SQD) or is flushed (ERR) before the command returns to the guest.
  if (impl_->run_qp(*qp, now)) impl_->scheduler.make_ready(*qp);
  impl_->services.wire.flush(now);
  return {};
}

Outcome<abi::QpAttr> Engine::query_qp(QpHandle handle) const {
  QueuePair* qp = impl_->qps.find(handle.value);
  if (qp == nullptr) return refuse(CommandError::kNoSuchObject);
  abi::QpAttr attr = to_abi(qp->attributes, qp->identity.cap);
  attr.rq_psn = qp->expected_psn().value;
  attr.sq_psn = qp->next_psn().value;
  attr.sq_draining = qp->state() == abi::QpState::kSqd && !qp->send.window.empty() ? 1 : 0;
  return attr;
}

void Engine::Impl::remove_qp(QpHandle handle) {
  const std::unique_ptr<QueuePair> qp = qps.remove(handle.value);
  loans.stop(*qp);
  scheduler.forget(*qp);
  mapped.forget(*qp);
  --qp->send_cq.references;
  --qp->recv_cq.references;
  if (qp->receive.srq != nullptr) --qp->receive.srq->references;
  --pds.find(qp->identity.pd.value)->references;
  if (qp->identity.type == abi::QpType::kUd) --ud_qp_count;
}

Outcome<> Engine::destroy_qp(QpHandle handle, Instant now) {
  QueuePair* qp = impl_->qps.find(handle.value);
  if (qp == nullptr) return refuse(CommandError::kNoSuchObject);
  impl_->run_posted(*qp, now);
  impl_->services.wire.flush(now);
  impl_->remove_qp(handle);
  return {};
}

}  // namespace pvrdma::verbs
