// The uverbs commands that make objects.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <fmt/core.h>
#include <rdma/vmw_pvrdma-abi.h>

#include "abi/commands.h"
#include "standin/open_file.h"

namespace pvrdma::standin {
namespace {

constexpr std::uint32_t kCompletionVectors = 1;
constexpr std::size_t kChannelsMax = 1024;              // of one file
constexpr std::uint32_t kOptionalAccess = 0x3ff0'0000;  // IB_ACCESS_OPTIONAL: a device may ignore these bits
constexpr std::uint32_t kRemoteChanges = abi::kAccessRemoteWrite | abi::kAccessRemoteAtomic;
constexpr std::uint32_t kKnownAccess = abi::kAccessMask & ~static_cast<std::uint32_t>(abi::kAccessOnDemand);

constexpr std::uint64_t pages_in(std::uint64_t bytes) {
  return bytes / abi::kPageBytes + (bytes % abi::kPageBytes != 0 ? 1 : 0);
}

// As the kernel checks REG_MR.
Result<> check_region(const ib_uverbs_reg_mr& request, std::uint64_t max_bytes) {
  constexpr std::uint64_t kInPage = abi::kPageBytes - 1;
  if (request.length == 0 || request.length > max_bytes || request.start + request.length < request.start)
    return fail(EINVAL, fmt::format("a region of {} bytes at {:#x}", request.length, request.start));
  if ((request.start & kInPage) != (request.hca_va & kInPage))
    return fail(EINVAL, "a region's two addresses have different offsets in their pages");
  const std::uint32_t access = request.access_flags & ~kOptionalAccess;
  if ((access & ~kKnownAccess) != 0) return fail(EINVAL, fmt::format("access flags {:#x}", access));
  if ((access & kRemoteChanges) != 0 && (access & abi::kAccessLocalWrite) == 0)
    return fail(EINVAL, "remote write or atomic access without local write access");
  return {};
}

}  // namespace

Result<> OpenFile::get_context(const UverbsCommand& command, UverbsAnswer& answer) {
  ib_uverbs_get_context request;
  if (!command.read(request)) return too_short();
  if (context_) return fail(EINVAL, "the file has a context already");
  auto ends = EventChannel::create();
  if (!ends) return Failure(std::move(ends.error()));
  auto context = driver::Context::create_user(adapter_.device());
  if (!context) return Failure(std::move(context.error()));
  context_ = std::move(*context);
  async_ = std::move(ends->channel);

  answer.response_address = request.response;
  answer.channel = std::move(ends->program);
  answer.fd_field = offsetof(ib_uverbs_get_context_resp, async_fd);
  answer.value = PVRDMA_WIRE_NO_DOORBELL;
  if (const auto offset = adapter_.doorbell_offset(context_->uar())) {
    answer.value = *offset;
    answer.borrowed_file = adapter_.doorbell_file();
  }
  answer.put(command, ib_uverbs_get_context_resp{.async_fd = 0, .num_comp_vectors = kCompletionVectors});
  answer.put(command,
             pvrdma_alloc_ucontext_resp{.qp_tab_size = adapter_.device().caps().max_qp, .reserved = 0});
  return {};
}

Result<> OpenFile::alloc_pd(const UverbsCommand& command, UverbsAnswer& answer) {
  ib_uverbs_alloc_pd request;
  if (!command.read(request)) return too_short();
  const auto made = commands().call<abi::CreatePdResponse>(
      abi::Command::kCreatePd, abi::CreatePdRequest{.ctx_handle = context_->handle()});
  if (!made) return Failure(made.error());
  pds_.insert(made->pd_handle);
  answer.response_address = request.response;
  answer.put(command, ib_uverbs_alloc_pd_resp{.pd_handle = made->pd_handle});
  answer.put(command, pvrdma_alloc_pd_resp{.pdn = made->pd_handle, .reserved = 0});
  return {};
}

Result<std::unique_ptr<driver::PageDirectory>> OpenFile::directory_of(std::span<const pvrdma_wire_run> runs,
                                                                      std::uint64_t page_count) {
  if (page_count == 0 || page_count > driver::PageDirectory::kPagesMax) {
    return fail(EINVAL, fmt::format("an object of {} pages: the device takes 1 to {}", page_count,
                                    driver::PageDirectory::kPagesMax));
  }
  const auto pages = windows_.pages_of(runs, page_count);
  if (!pages) return Failure(pages.error());
  return driver::PageDirectory::of(adapter_.device().ram(), *pages);
}

Result<> OpenFile::reg_mr(const UverbsCommand& command, std::span<const pvrdma_wire_run> runs,
                          UverbsAnswer& answer) {
  ib_uverbs_reg_mr request;
  if (!command.read(request)) return too_short();
  if (auto good = check_region(request, adapter_.device().caps().max_mr_size); !good) return good;
  if (!pds_.contains(request.pd_handle)) return no_such("PD", request.pd_handle);
  const std::uint64_t first = request.start / abi::kPageBytes;
  const std::uint64_t last = (request.start + request.length - 1) / abi::kPageBytes;
  auto directory = directory_of(runs, last - first + 1);
  if (!directory) return Failure(std::move(directory.error()));
  const auto made = commands().call<abi::CreateMrResponse>(
      abi::Command::kCreateMr, abi::CreateMrRequest{.start = request.start,
                                                    .length = request.length,
                                                    .pdir_dma = (*directory)->gpa().value,
                                                    .pd_handle = request.pd_handle,
                                                    .access_flags = request.access_flags & kKnownAccess,
                                                    .flags = 0,
                                                    .nchunks = static_cast<std::uint32_t>(last - first + 1)});
  if (!made) return Failure(made.error());
  mrs_[made->mr_handle] = Mr{std::move(*directory)};
  answer.response_address = request.response;
  answer.put(command,
             ib_uverbs_reg_mr_resp{.mr_handle = made->mr_handle, .lkey = made->lkey, .rkey = made->rkey});
  return {};
}

Result<> OpenFile::create_channel(const UverbsCommand& command, UverbsAnswer& answer) {
  ib_uverbs_create_comp_channel request;
  if (!command.read(request)) return too_short();
  if (channels_.size() >= kChannelsMax) {
    // A program closes a channel without a word. CQs share ownership of theirs.
    std::erase_if(channels_, [](const auto& each) { return each.second->is_abandoned(); });
    if (channels_.size() >= kChannelsMax)
      return fail(EMFILE, fmt::format("the file has {} completion channels already", kChannelsMax));
  }
  auto ends = EventChannel::create();
  if (!ends) return Failure(std::move(ends.error()));
  const std::uint32_t number = next_channel_;
  next_channel_ = (next_channel_ + 1) & 0x7fff'ffff;  // CREATE_CQ names it by a signed number
  channels_[number] = std::move(ends->channel);
  answer.value = number;
  answer.response_address = request.response;
  answer.channel = std::move(ends->program);
  answer.fd_field = offsetof(ib_uverbs_create_comp_channel_resp, fd);
  answer.put(command, ib_uverbs_create_comp_channel_resp{.fd = 0});
  return {};
}

Result<> OpenFile::create_cq(const UverbsCommand& command, std::span<const pvrdma_wire_run> runs,
                             UverbsAnswer& answer) {
  ib_uverbs_create_cq request;
  const auto buffer = command.provider_part<pvrdma_create_cq, ib_uverbs_create_cq>();
  if (!command.read(request) || !buffer) return too_short();
  const std::uint32_t max_cqe = adapter_.device().caps().max_cqe;
  if (request.cqe == 0 || request.cqe > max_cqe)
    return fail(EINVAL, fmt::format("a CQ of {} entries: the device takes 1 to {}", request.cqe, max_cqe));
  if (request.comp_vector >= kCompletionVectors)
    return fail(EINVAL, fmt::format("there is no completion vector {}", request.comp_vector));
  std::shared_ptr<EventChannel> channel;
  if (request.comp_channel >= 0) {
    const auto found = channels_.find(static_cast<std::uint32_t>(request.comp_channel));
    if (found == channels_.end())
      return no_such("completion channel", static_cast<std::uint32_t>(request.comp_channel));
    channel = found->second;
  }
  const std::uint64_t pages = pages_in(buffer->buf_size);
  auto directory = directory_of(runs, pages);
  if (!directory) return Failure(std::move(directory.error()));
  const auto made = commands().call<abi::CreateCqResponse>(
      abi::Command::kCreateCq, abi::CreateCqRequest{.pdir_dma = (*directory)->gpa().value,
                                                    .ctx_handle = context_->handle(),
                                                    .cqe = std::bit_ceil(request.cqe),
                                                    .nchunks = static_cast<std::uint32_t>(pages)});
  if (!made) return Failure(made.error());
  cqs_[made->cq_handle] = Cq{std::move(*directory), request.user_handle, std::move(channel), Armed::kNo};
  adapter_.set_owner(abi::EventObject::kCq, made->cq_handle, this);
  answer.response_address = request.response;
  answer.user_handle = request.user_handle;
  answer.put(command, ib_uverbs_create_cq_resp{.cq_handle = made->cq_handle, .cqe = made->cqe});
  answer.put(command, pvrdma_create_cq_resp{.cqn = made->cq_handle, .reserved = 0});
  return {};
}

Result<> OpenFile::create_srq(const UverbsCommand& command, std::span<const pvrdma_wire_run> runs,
                              UverbsAnswer& answer) {
  ib_uverbs_create_srq request;
  const auto buffer = command.provider_part<pvrdma_create_srq, ib_uverbs_create_srq>();
  if (!command.read(request) || !buffer) return too_short();
  if (!pds_.contains(request.pd_handle)) return no_such("PD", request.pd_handle);
  const abi::Caps& caps = adapter_.device().caps();
  if (caps.max_srq == 0) return fail(EOPNOTSUPP, "the device has no shared receive queues");
  if (request.max_wr > caps.max_srq_wr || request.max_sge > caps.max_srq_sge) {
    return fail(EINVAL, fmt::format("an SRQ of {} requests with {} SGEs: the device takes {} and {}",
                                    request.max_wr, request.max_sge, caps.max_srq_wr, caps.max_srq_sge));
  }
  const std::uint32_t max_wr = std::bit_ceil(std::max(request.max_wr, 1U));
  const std::uint64_t pages = pages_in(buffer->buf_size);
  auto directory = directory_of(runs, pages);
  if (!directory) return Failure(std::move(directory.error()));
  const auto made = commands().call<abi::CreateSrqResponse>(
      abi::Command::kCreateSrq,
      abi::CreateSrqRequest{
          .pdir_dma = (*directory)->gpa().value,
          .pd_handle = request.pd_handle,
          .nchunks = static_cast<std::uint32_t>(pages),
          .attrs = {.max_wr = max_wr, .max_sge = request.max_sge, .srq_limit = request.srq_limit}});
  if (!made) return Failure(made.error());
  srqs_[made->srqn] = Srq{std::move(*directory), request.user_handle};
  adapter_.set_owner(abi::EventObject::kSrq, made->srqn, this);
  answer.response_address = request.response;
  answer.user_handle = request.user_handle;
  answer.put(command,
             ib_uverbs_create_srq_resp{
                 .srq_handle = made->srqn, .max_wr = max_wr, .max_sge = request.max_sge, .srqn = made->srqn});
  answer.put(command, pvrdma_create_srq_resp{.srqn = made->srqn, .reserved = 0});
  return {};
}

Result<> OpenFile::create_qp(const UverbsCommand& command, std::span<const pvrdma_wire_run> runs,
                             UverbsAnswer& answer) {
  ib_uverbs_create_qp request;
  const auto buffers = command.provider_part<pvrdma_create_qp, ib_uverbs_create_qp>();
  if (!command.read(request) || !buffers) return too_short();
  const auto type = abi::parse_qp_type(request.qp_type);
  if (type != abi::QpType::kRc && type != abi::QpType::kUd)
    return fail(EOPNOTSUPP, fmt::format("QPs of type {} are not supported", request.qp_type));
  if (!pds_.contains(request.pd_handle)) return no_such("PD", request.pd_handle);
  if (!cqs_.contains(request.send_cq_handle)) return no_such("CQ", request.send_cq_handle);
  if (!cqs_.contains(request.recv_cq_handle)) return no_such("CQ", request.recv_cq_handle);
  const bool is_srq = request.is_srq != 0;
  if (is_srq && !srqs_.contains(request.srq_handle)) return no_such("SRQ", request.srq_handle);

  // The send buffer's first page holds the state of both rings.
  const std::uint64_t send_pages = pages_in(buffers->sbuf_size);
  const std::uint64_t pages = send_pages + (is_srq ? 0 : pages_in(buffers->rbuf_size));
  if (send_pages == 0 || pages > UINT16_MAX)
    return fail(EINVAL, fmt::format("a QP of {} pages: the device takes 1 to {}", pages, UINT16_MAX));
  auto directory = directory_of(runs, pages);
  if (!directory) return Failure(std::move(directory.error()));
  const abi::CreateQpRequest wanted{.pdir_dma = (*directory)->gpa().value,
                                    .pd_handle = request.pd_handle,
                                    .send_cq_handle = request.send_cq_handle,
                                    .recv_cq_handle = request.recv_cq_handle,
                                    .srq_handle = is_srq ? request.srq_handle : 0,
                                    .max_send_wr = request.max_send_wr,
                                    .max_recv_wr = request.max_recv_wr,
                                    .max_send_sge = request.max_send_sge,
                                    .max_recv_sge = request.max_recv_sge,
                                    .max_inline_data = request.max_inline_data,
                                    .access_flags = abi::kAccessLocalWrite,
                                    .total_chunks = static_cast<std::uint16_t>(pages),
                                    .send_chunks = static_cast<std::uint16_t>(send_pages - 1),
                                    .sq_sig_all = request.sq_sig_all,
                                    .qp_type = request.qp_type,
                                    .is_srq = request.is_srq};
  std::uint32_t handle = 0;
  std::uint32_t qpn = 0;
  std::uint32_t max_inline_data = 0;
  if (adapter_.device().version() < abi::kVersionQpHandle) {
    const auto made = commands().call<abi::CreateQpResponse>(abi::Command::kCreateQp, wanted);
    if (!made) return Failure(made.error());
    handle = qpn = made->qpn;
    max_inline_data = made->max_inline_data;
  } else {
    const auto made = commands().call<abi::CreateQpResponseV2>(abi::Command::kCreateQp, wanted);
    if (!made) return Failure(made.error());
    handle = made->qp_handle;
    qpn = made->qpn;
    max_inline_data = made->max_inline_data;
  }
  // The provider has computed the other sizes. Inline data is what the device has: UCX sends it without a
  // key.
  const abi::QpCap cap{.max_send_wr = request.max_send_wr,
                       .max_recv_wr = request.max_recv_wr,
                       .max_send_sge = request.max_send_sge,
                       .max_recv_sge = request.max_recv_sge,
                       .max_inline_data = max_inline_data};
  qps_[handle] = Qp{std::move(*directory), qpn, request.user_handle, cap, request.sq_sig_all != 0};
  qpns_.insert(qpn);
  adapter_.set_owner(abi::EventObject::kQp, handle, this);
  answer.response_address = request.response;
  answer.user_handle = request.user_handle;
  answer.put(command, ib_uverbs_create_qp_resp{.qp_handle = handle,
                                               .qpn = qpn,
                                               .max_send_wr = cap.max_send_wr,
                                               .max_recv_wr = cap.max_recv_wr,
                                               .max_send_sge = cap.max_send_sge,
                                               .max_recv_sge = cap.max_recv_sge,
                                               .max_inline_data = cap.max_inline_data,
                                               .reserved = 0});
  answer.put(command, pvrdma_create_qp_resp{.qpn = qpn, .qp_handle = handle});
  return {};
}

}  // namespace pvrdma::standin
