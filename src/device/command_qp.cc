// Commands on queue pairs. Reference 3.3, 3.4, 7.2-7.4.
#include <algorithm>
#include <bit>

#include "device/command_executor.h"

namespace pvrdma::device {
namespace {

// Both layouts of the CREATE_QP response repeat the limits, which Linux ignores.
template <typename Answer>
void echo_limits(const abi::CreateQpRequest& asked, Answer& answer) {
  answer.max_send_wr = asked.max_send_wr;
  answer.max_recv_wr = asked.max_recv_wr;
  answer.max_send_sge = asked.max_send_sge;
  answer.max_recv_sge = asked.max_recv_sge;
  answer.max_inline_data = 0;  // inline data is not supported (reference 6.1)
}

bool is_offered(abi::QpType type) {
  switch (type) {
    case abi::QpType::kGsi:
    case abi::QpType::kRc:
    case abi::QpType::kUd:
      return true;
    case abi::QpType::kSmi:
    case abi::QpType::kUc:
      return false;
  }
  return false;
}

// User processes choose ring sizes, and the guest's index arithmetic is correct only for powers of two.
bool is_ring_size(std::uint32_t work_requests, std::uint32_t max) {
  return std::has_single_bit(work_requests) && work_requests <= max;
}

}  // namespace

CommandExecutor::Status CommandExecutor::create_qp(const Request& request, Response& response) {
  const auto asked = request.as<abi::CreateQpRequest>();
  const auto type = abi::parse_qp_type(asked.qp_type);
  if (!type || !is_offered(*type)) return verbs::refuse(verbs::CommandError::kNotSupported);
  const bool has_srq = asked.is_srq != 0;
  const std::uint32_t max_wr = std::max(limits_.max_qp_wr, limits_.max_user_qp_wr);
  if (!is_ring_size(asked.max_send_wr, max_wr) || (!has_srq && !is_ring_size(asked.max_recv_wr, max_wr)))
    return verbs::refuse(verbs::CommandError::kInvalid);

  verbs::CreateQp create;
  create.pd = verbs::PdHandle{asked.pd_handle};
  create.send_cq = verbs::CqHandle{asked.send_cq_handle};
  create.recv_cq = verbs::CqHandle{asked.recv_cq_handle};
  create.has_srq = has_srq;
  create.srq = verbs::SrqHandle{asked.srq_handle};
  create.type = *type;
  create.max_send_wr = asked.max_send_wr;
  create.max_recv_wr = has_srq ? 0 : asked.max_recv_wr;
  create.max_send_sge = asked.max_send_sge;
  create.max_recv_sge = asked.max_recv_sge;
  create.signal_all = asked.sq_sig_all != 0;
  create.total_pages = asked.total_chunks;
  create.send_pages = asked.send_chunks;
  create.page_directory = asked.pdir_dma;
  const auto qp = engine_.create_qp(create);
  if (!qp) return verbs::refuse(qp.error());

  if (separates_qp_handle(version_)) {
    abi::CreateQpResponseV2 answer{};
    answer.qpn = qp->qpn.value;
    answer.qp_handle = qp->handle.value;
    echo_limits(asked, answer);
    response.put(answer);
  } else {
    abi::CreateQpResponse answer{};
    answer.qpn = qp->qpn.value;
    echo_limits(asked, answer);
    response.put(answer);
  }
  return {};
}

CommandExecutor::Status CommandExecutor::modify_qp(const Request& request, Instant now) {
  const auto asked = request.as<abi::ModifyQpRequest>();
  const verbs::ModifyQp wanted{asked.attr_mask, asked.attrs};
  const auto modified = engine_.modify_qp(verbs::QpHandle{asked.qp_handle}, wanted, now);
  if (modified == verbs::refuse(verbs::CommandError::kInvalid))
    out_of_range_ = verbs::first_out_of_range(wanted, limits_);
  return modified;
}

// Returns all attributes, whatever the mask asks for.
CommandExecutor::Status CommandExecutor::query_qp(const Request& request, Response& response) const {
  const auto attributes = engine_.query_qp(verbs::QpHandle{request.as<abi::QueryQpRequest>().qp_handle});
  if (!attributes) return verbs::refuse(attributes.error());
  abi::QueryQpResponse answer{};
  answer.attrs = *attributes;
  response.put(answer);
  return {};
}

CommandExecutor::Status CommandExecutor::destroy_qp(const Request& request, Instant now) {
  const verbs::QpHandle qp{request.as<abi::DestroyQpRequest>().qp_handle};
  const auto destroyed = engine_.destroy_qp(qp, now);
  if (destroyed) rings_.forget_qp(qp);
  return destroyed;
}

}  // namespace pvrdma::device
