// Engine's commands on contexts, PDs, MRs, CQs, SRQs and GIDs.
#include <unordered_set>

#include "verbs/engine.h"
#include "verbs/engine_impl.h"

namespace pvrdma::verbs {

Outcome<ContextHandle> Engine::create_context(UarIndex uar) {
  if (uar == 0 || uar >= impl_->contexts.size() || impl_->contexts[uar])
    return refuse(CommandError::kInvalid);
  const ContextHandle context(uar);
  if (impl_->rules.mapped_doorbells) impl_->mapped.open(context, impl_->contexts.size());
  impl_->contexts[uar] = true;
  return context;
}

Outcome<> Engine::destroy_context(ContextHandle context) {
  Impl& impl = *impl_;
  if (context == kKernelContext || !impl.has_context(context)) return refuse(CommandError::kNoSuchObject);

  impl.remove_all_of(context);
  impl.mapped.close(context);
  has_dead_ = true;
  bury(kBuriedPerRun);
  impl.contexts[context.value] = false;
  return {};
}

// Objects refer only to objects of their own context, so no reference counts of others have to be corrected.
void Engine::Impl::remove_all_of(ContextHandle context) {
  // Everything that allocates comes before the first change.
  std::unordered_set<PdHandle> gone;
  pds.for_each([&](std::uint32_t slot, const ProtectionDomain& pd) {
    if (pd.context == context) gone.emplace(slot);
  });
  removed_qps.reserve(removed_qps.size() + qps.count());
  removed_srqs.reserve(removed_srqs.size() + srqs.count());
  removed_cqs.reserve(removed_cqs.size() + cqs.count());
  loans.stop_those([context](const QueuePair& qp) { return qp.identity.context == context; });
  mrs.destroy_all_of(gone);
  for (const PdHandle pd : gone) pds.remove(pd.value);
  qps.move_if(
      [&](QueuePair& qp) {
        if (qp.identity.context != context) return false;
        scheduler.forget(qp);
        mapped.forget(qp);
        if (qp.identity.type == abi::QpType::kUd) --ud_qp_count;
        return true;
      },
      removed_qps);
  srqs.move_if([&](const SharedReceiveQueue& srq) { return srq.context() == context; }, removed_srqs);
  cqs.move_if(
      [&](CompletionQueue& cq) {
        if (cq.context() != context) return false;
        mapped.forget(cq);
        return true;
      },
      removed_cqs);
}

Outcome<PdHandle> Engine::create_pd(ContextHandle context) {
  if (!impl_->has_context(context)) return refuse(CommandError::kNoSuchObject);
  const std::optional<std::uint32_t> slot = impl_->pds.free_slot();
  if (!slot) return refuse(CommandError::kNoMemory);
  impl_->pds.insert_at(*slot, std::make_unique<ProtectionDomain>(ProtectionDomain{.context = context}));
  return PdHandle(*slot);
}

Outcome<> Engine::destroy_pd(PdHandle handle) {
  const ProtectionDomain* pd = impl_->pds.find(handle.value);
  if (pd == nullptr) return refuse(CommandError::kNoSuchObject);
  if (pd->references != 0 || impl_->mrs.any_of(handle)) return refuse(CommandError::kBusy);
  impl_->pds.remove(handle.value);
  return {};
}

Outcome<MrKeys> Engine::create_mr(const CreateMr& request) {
  const ProtectionDomain* pd = impl_->pds.find(request.pd.value);
  if (pd == nullptr) return refuse(CommandError::kNoSuchObject);
  // Both kinds would give a process access to all of the guest's memory (reference 9.2).
  if (request.kind != MrKind::kUser && pd->context != kKernelContext)
    return refuse(CommandError::kNotPermitted);
  return with_room([&] { return impl_->mrs.create(request); });
}

Outcome<> Engine::destroy_mr(MrHandle mr) {
  impl_->loans.stop_region(mr);
  return impl_->mrs.destroy(mr);
}

Outcome<CqHandle> Engine::create_cq(const CreateCq& request) {
  return with_room([&] { return make_cq(request); });
}

Outcome<CqHandle> Engine::make_cq(const CreateCq& request) {
  if (!impl_->has_context(request.context)) return refuse(CommandError::kNoSuchObject);
  const std::optional<std::uint32_t> slot = impl_->cqs.free_slot();
  if (!slot) return impl_->refuse_full(Budget::kCqs);
  auto cq = CompletionQueue::create(CqHandle(*slot), request, impl_->limits, impl_->memory, impl_->events);
  if (!cq) return refuse(cq.error());
  auto held = impl_->account.take(Budget::kCqs, static_cast<std::uint32_t>((*cq)->page_count()));
  if (!held) return refuse(CommandError::kNoMemory);
  (*cq)->held = *std::move(held);
  impl_->mapped.add(impl_->cqs.insert_at(*slot, std::move(*cq)));
  return CqHandle(*slot);
}

Outcome<> Engine::destroy_cq(CqHandle handle) {
  const CompletionQueue* cq = impl_->cqs.find(handle.value);
  if (cq == nullptr) return refuse(CommandError::kNoSuchObject);
  if (cq->references != 0) return refuse(CommandError::kBusy);
  impl_->cqs.remove(handle.value);
  return {};
}

Outcome<SrqHandle> Engine::create_srq(const CreateSrq& request) {
  return with_room([&] { return make_srq(request); });
}

Outcome<SrqHandle> Engine::make_srq(const CreateSrq& request) {
  if (impl_->limits.max_srq == 0) return refuse(CommandError::kNotSupported);
  ProtectionDomain* pd = impl_->pds.find(request.pd.value);
  if (pd == nullptr) return refuse(CommandError::kNoSuchObject);
  const std::optional<std::uint32_t> slot = impl_->srqs.free_slot();
  if (!slot) return impl_->refuse_full(Budget::kSrqs);
  CreateSrq owned = request;
  owned.context = pd->context;
  auto srq = SharedReceiveQueue::create(SrqHandle(*slot), owned, impl_->limits, impl_->memory, impl_->events);
  if (!srq) return refuse(srq.error());
  auto held = impl_->account.take(Budget::kSrqs, static_cast<std::uint32_t>((*srq)->page_count()));
  if (!held) return refuse(CommandError::kNoMemory);
  (*srq)->held = *std::move(held);
  impl_->srqs.insert_at(*slot, std::move(*srq));
  ++pd->references;
  return SrqHandle(*slot);
}

Outcome<> Engine::modify_srq(SrqHandle handle, std::uint32_t limit) {
  SharedReceiveQueue* srq = impl_->srqs.find(handle.value);
  if (srq == nullptr) return refuse(CommandError::kNoSuchObject);
  return srq->set_limit(limit);
}

Outcome<abi::SrqAttr> Engine::query_srq(SrqHandle handle) const {
  const SharedReceiveQueue* srq = impl_->srqs.find(handle.value);
  if (srq == nullptr) return refuse(CommandError::kNoSuchObject);
  return abi::SrqAttr{
      .max_wr = srq->max_wr(), .max_sge = srq->max_sge(), .srq_limit = srq->limit(), .reserved = 0};
}

Outcome<> Engine::destroy_srq(SrqHandle handle) {
  const SharedReceiveQueue* srq = impl_->srqs.find(handle.value);
  if (srq == nullptr) return refuse(CommandError::kNoSuchObject);
  if (srq->references != 0) return refuse(CommandError::kBusy);
  --impl_->pds.find(srq->pd().value)->references;
  impl_->srqs.remove(handle.value);
  return {};
}

Outcome<> Engine::bind_gid(std::uint32_t index, const Gid& gid, RoceVersion roce) {
  if (roce != impl_->rules.roce) return refuse(CommandError::kInvalid);
  return gids_.bind(index, gid, roce);
}

Outcome<> Engine::unbind_gid(std::uint32_t index, const Gid& gid) {
  return gids_.unbind(index, gid);
}

}  // namespace pvrdma::verbs
