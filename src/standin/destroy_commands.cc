// The uverbs commands that destroy objects.
#include "abi/commands.h"
#include "standin/open_file.h"

namespace pvrdma::standin {

Result<> OpenFile::send_dealloc_pd(std::uint32_t handle) {
  return commands().run(abi::Command::kDestroyPd, abi::DestroyPdRequest{.pd_handle = handle});
}

Result<> OpenFile::send_dereg_mr(std::uint32_t handle) {
  return commands().run(abi::Command::kDestroyMr, abi::DestroyMrRequest{.mr_handle = handle});
}

Result<> OpenFile::dealloc_pd(const UverbsCommand& command) {
  ib_uverbs_dealloc_pd request;
  if (!command.read(request)) return too_short();
  if (!pds_.contains(request.pd_handle)) return no_such("PD", request.pd_handle);
  if (auto done = send_dealloc_pd(request.pd_handle); !done) return done;
  pds_.erase(request.pd_handle);
  return {};
}

Result<> OpenFile::dereg_mr(const UverbsCommand& command) {
  ib_uverbs_dereg_mr request;
  if (!command.read(request)) return too_short();
  if (!mrs_.contains(request.mr_handle)) return no_such("MR", request.mr_handle);
  if (auto done = send_dereg_mr(request.mr_handle); !done) return done;
  mrs_.erase(request.mr_handle);
  return {};
}

Result<> OpenFile::destroy_cq(const UverbsCommand& command, UverbsAnswer& answer) {
  ib_uverbs_destroy_cq request;
  if (!command.read(request)) return too_short();
  const auto cq = cqs_.find(request.cq_handle);
  if (cq == cqs_.end()) return no_such("CQ", request.cq_handle);
  if (auto done = commands().run(abi::Command::kDestroyCq, abi::DestroyCqRequest{.cq_handle = cq->first});
      !done)
    return done;
  adapter_.dispatch_events();  // the last ones of this CQ
  adapter_.set_owner(abi::EventObject::kCq, cq->first, nullptr);
  answer.response_address = request.response;
  answer.user_handle = cq->second.user_handle;
  answer.put(command, ib_uverbs_destroy_cq_resp{});
  cqs_.erase(cq);
  return {};
}

Result<> OpenFile::destroy_srq(const UverbsCommand& command, UverbsAnswer& answer) {
  ib_uverbs_destroy_srq request;
  if (!command.read(request)) return too_short();
  const auto srq = srqs_.find(request.srq_handle);
  if (srq == srqs_.end()) return no_such("SRQ", request.srq_handle);
  if (auto done = commands().run(abi::Command::kDestroySrq, abi::DestroySrqRequest{.srq_handle = srq->first});
      !done)
    return done;
  adapter_.dispatch_events();
  adapter_.set_owner(abi::EventObject::kSrq, srq->first, nullptr);
  answer.response_address = request.response;
  answer.user_handle = srq->second.user_handle;
  answer.put(command, ib_uverbs_destroy_srq_resp{});
  srqs_.erase(srq);
  return {};
}

Result<> OpenFile::destroy_qp(const UverbsCommand& command, UverbsAnswer& answer) {
  ib_uverbs_destroy_qp request;
  if (!command.read(request)) return too_short();
  const auto qp = qps_.find(request.qp_handle);
  if (qp == qps_.end()) return no_such("QP", request.qp_handle);
  if (auto done = commands().run(abi::Command::kDestroyQp, abi::DestroyQpRequest{.qp_handle = qp->first});
      !done)
    return done;
  adapter_.dispatch_events();
  adapter_.set_owner(abi::EventObject::kQp, qp->first, nullptr);
  answer.response_address = request.response;
  answer.user_handle = qp->second.user_handle;
  answer.put(command, ib_uverbs_destroy_qp_resp{});
  qpns_.erase(qp->second.qpn);
  qps_.erase(qp);
  return {};
}

// In this order, because the device refuses to destroy what others use. Errors change nothing: the process is
// gone, or the adapter is.
void OpenFile::destroy_all() {
  for (const auto& [handle, qp] : qps_) {
    (void)commands().run(abi::Command::kDestroyQp, abi::DestroyQpRequest{.qp_handle = handle});
    adapter_.set_owner(abi::EventObject::kQp, handle, nullptr);
    qpns_.erase(qp.qpn);
  }
  for (const auto& [handle, srq] : srqs_) {
    (void)commands().run(abi::Command::kDestroySrq, abi::DestroySrqRequest{.srq_handle = handle});
    adapter_.set_owner(abi::EventObject::kSrq, handle, nullptr);
  }
  for (const auto& [handle, cq] : cqs_) {
    (void)commands().run(abi::Command::kDestroyCq, abi::DestroyCqRequest{.cq_handle = handle});
    adapter_.set_owner(abi::EventObject::kCq, handle, nullptr);
  }
  for (const auto& [handle, mr] : mrs_) (void)send_dereg_mr(handle);
  for (const std::uint32_t handle : pds_) (void)send_dealloc_pd(handle);
  adapter_.dispatch_events();  // before another file gets one of the handles
}

}  // namespace pvrdma::standin
