#include "driver/queue_pair.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <fmt/core.h>
#include <vector>

#include "abi/ring.h"
#include "driver/device.h"

namespace pvrdma::driver {

// The queue sizes that Linux (kernel QPs) and the provider (user QPs) compute from the requested numbers
// (4.5).
struct QueuePair::Geometry {
  std::uint32_t send_wr = 0;
  std::uint32_t recv_wr = 0;  // 0 with an SRQ
  std::uint32_t send_sge = 0;
  std::uint32_t recv_sge = 0;
  std::uint32_t send_stride_bytes = 0;  // 0: no such queue
  std::uint32_t recv_stride_bytes = 0;

  std::size_t send_bytes() const { return abi::kPageBytes + std::size_t{send_wr} * send_stride_bytes; }
  std::size_t recv_bytes() const { return std::size_t{recv_wr} * recv_stride_bytes; }
};

QueuePair::Geometry QueuePair::geometry_of(const Context& context, const QpOptions& options) {
  const auto at_least_one = [](std::uint32_t n) { return n == 0 ? 1 : n; };
  const auto sges = [&](std::uint32_t n) {
    return context.is_kernel() ? std::bit_ceil(at_least_one(n)) : at_least_one(n);
  };
  Geometry geometry;
  geometry.send_wr = std::bit_ceil(at_least_one(options.max_send_wr));
  geometry.send_sge = sges(options.max_send_sge);
  geometry.send_stride_bytes = abi::send_wqe_stride(geometry.send_sge).value_or(0);
  if (options.srq == nullptr) {
    geometry.recv_wr = std::bit_ceil(at_least_one(options.max_recv_wr));
    geometry.recv_sge = sges(options.max_recv_sge);
  }
  geometry.recv_stride_bytes = abi::recv_wqe_stride(geometry.recv_sge).value_or(0);
  return geometry;
}

Result<std::unique_ptr<QueuePair>> QueuePair::create(ProtectionDomain& pd, const QpOptions& options) {
  if (options.send_cq == nullptr || options.recv_cq == nullptr)
    return fail(EINVAL, "a QP needs two completion queues");
  const Geometry geometry = geometry_of(pd.context(), options);
  if (geometry.send_stride_bytes == 0 || geometry.recv_stride_bytes == 0) {
    return fail(EINVAL, fmt::format("a QP with {} and {} SGEs: a work request has to fit a page",
                                    options.max_send_sge, options.max_recv_sge));
  }
  GuestRam& ram = pd.context().device().ram();
  auto send_pages = ram.allocate(geometry.send_bytes(), options.placement);
  if (!send_pages) return Failure(std::move(send_pages.error()));
  std::vector<GuestPhys> pages((*send_pages)->pages().begin(), (*send_pages)->pages().end());
  std::unique_ptr<Buffer> recv_pages;
  if (geometry.recv_wr != 0) {
    auto made = ram.allocate(geometry.recv_bytes(), options.placement);
    if (!made) return Failure(std::move(made.error()));
    recv_pages = std::move(*made);
    pages.insert(pages.end(), recv_pages->pages().begin(), recv_pages->pages().end());
  }
  if (pages.size() > 0xffff)
    return fail(EINVAL, fmt::format("a QP of {} pages: the device counts to 65535", pages.size()));
  auto directory = PageDirectory::of(ram, pages);
  if (!directory) return Failure(std::move(directory.error()));

  std::byte* state = (*send_pages)->data();
  const WorkRing send_ring(RingState(state + offsetof(abi::RingState, tx)), state + abi::kPageBytes,
                           geometry.send_wr, geometry.send_stride_bytes);
  const WorkRing recv_ring(RingState(state + offsetof(abi::RingState, rx)),
                           recv_pages ? recv_pages->data() : nullptr, geometry.recv_wr,
                           geometry.recv_stride_bytes);
  std::unique_ptr<QueuePair> qp(new QueuePair(pd, options, std::move(*send_pages), std::move(recv_pages),
                                              std::move(*directory), send_ring, recv_ring));
  qp->max_send_sge_ = geometry.send_sge;
  qp->max_recv_sge_ = geometry.recv_sge;
  if (auto created = qp->create_on_device(geometry, options); !created)
    return Failure(std::move(created.error()));
  return qp;
}

QueuePair::QueuePair(ProtectionDomain& pd, const QpOptions& options, std::unique_ptr<Buffer> send_pages,
                     std::unique_ptr<Buffer> recv_pages, std::unique_ptr<PageDirectory> directory,
                     WorkRing send_ring, WorkRing recv_ring)
    : pd_(pd),
      send_cq_(*options.send_cq),
      recv_cq_(*options.recv_cq),
      has_srq_(options.srq != nullptr),
      type_(options.type),
      send_pages_(std::move(send_pages)),
      recv_pages_(std::move(recv_pages)),
      directory_(std::move(directory)),
      send_ring_(send_ring),
      recv_ring_(recv_ring),
      max_send_sge_(0),
      max_recv_sge_(0) {}

Result<> QueuePair::create_on_device(const Geometry& geometry, const QpOptions& options) {
  Device& device = pd_.context().device();
  const std::size_t recv_page_count = recv_pages_ ? recv_pages_->pages().size() : 0;
  const abi::CreateQpRequest request{
      .pdir_dma = directory_->gpa().value,
      .pd_handle = pd_.handle(),
      .send_cq_handle = send_cq_.handle(),
      .recv_cq_handle = recv_cq_.handle(),
      .srq_handle = options.srq != nullptr ? options.srq->handle() : 0,
      .max_send_wr = geometry.send_wr,
      .max_recv_wr = geometry.recv_wr,
      .max_send_sge = geometry.send_sge,
      .max_recv_sge = geometry.recv_sge,
      .access_flags = abi::kAccessLocalWrite,
      .total_chunks = static_cast<std::uint16_t>(send_pages_->pages().size() + recv_page_count),
      .send_chunks = static_cast<std::uint16_t>(send_pages_->pages().size() - 1),
      .sq_sig_all = static_cast<std::uint8_t>(options.signaling == Signaling::kAll ? 1 : 0),
      .qp_type = static_cast<std::uint8_t>(options.type),
      .is_srq = static_cast<std::uint8_t>(has_srq_ ? 1 : 0)};
  if (device.version() < abi::kVersionQpHandle) {
    auto answer = device.commands().call<abi::CreateQpResponse>(abi::Command::kCreateQp, request);
    if (!answer) return Failure(std::move(answer.error()));
    qpn_ = handle_ = answer->qpn;
  } else {
    auto answer = device.commands().call<abi::CreateQpResponseV2>(abi::Command::kCreateQp, request);
    if (!answer) return Failure(std::move(answer.error()));
    qpn_ = answer->qpn;
    handle_ = answer->qp_handle;
  }
  if (!device.is_valid_qp_handle(handle_))
    return fail(EPROTO, fmt::format("the device gave QP handle {}", handle_));
  device.register_qp(handle_, this);
  alive_ = true;
  return {};
}

QueuePair::~QueuePair() {
  (void)destroy();
}

Result<> QueuePair::destroy() {
  if (!alive_) return {};
  alive_ = false;
  Device& device = pd_.context().device();
  auto done = device.commands().run(abi::Command::kDestroyQp, abi::DestroyQpRequest{.qp_handle = handle_});
  forget_completions();
  device.register_qp(handle_, nullptr);
  return done;
}

void QueuePair::forget_completions() {
  send_cq_.purge(handle_);
  if (&recv_cq_ != &send_cq_) recv_cq_.purge(handle_);
}

Result<> QueuePair::modify(std::uint32_t mask, const abi::QpAttr& attributes) {
  const auto asked = abi::parse_qp_state(attributes.qp_state);
  const bool changes_state = (mask & abi::kQpAttrState) != 0 && asked;
  auto answer = pd_.context().device().commands().call<abi::ModifyQpResponse>(
      abi::Command::kModifyQp,
      abi::ModifyQpRequest{.qp_handle = handle_, .attr_mask = mask, .attrs = attributes});
  if (!answer) return Failure(std::move(answer.error()));
  if (!changes_state) return {};
  state_ = *asked;
  if (state_ == abi::QpState::kReset) {
    forget_completions();
    send_ring_.state().clear();
    recv_ring_.state().clear();
  }
  return {};
}

Result<abi::QpAttr> QueuePair::query() {
  auto answer = pd_.context().device().commands().call<abi::QueryQpResponse>(
      abi::Command::kQueryQp, abi::QueryQpRequest{.qp_handle = handle_, .attr_mask = 0x1f'ffff});
  if (!answer) return Failure(std::move(answer.error()));
  if (const auto actual = abi::parse_qp_state(answer->attrs.qp_state)) state_ = *actual;
  return answer->attrs;
}

Posted QueuePair::post_send(std::span<const SendRequest> requests, Doorbell doorbell) {
  if (state_ < abi::QpState::kRts) return {PostStatus::kWrongState, 0};
  Posted posted = put_all(send_ring_, max_send_sge_, requests);
  if (posted.count == 0 || doorbell == Doorbell::kSkip) return posted;
  if (!ring_doorbell(abi::kQpDoorbellSend)) posted.status = PostStatus::kBusError;
  return posted;
}

Posted QueuePair::post_recv(std::span<const ReceiveRequest> requests, Doorbell doorbell) {
  if (state_ == abi::QpState::kReset || has_srq_) return {PostStatus::kWrongState, 0};
  Posted posted = put_all(recv_ring_, max_recv_sge_, requests);
  if (posted.count == 0 || doorbell == Doorbell::kSkip) return posted;
  if (!ring_doorbell(abi::kQpDoorbellRecv)) posted.status = PostStatus::kBusError;
  return posted;
}

Result<> QueuePair::ring_doorbell(std::uint32_t action_bits) {
  return pd_.context().ring(abi::UarWord::kQp, handle_ | action_bits);
}

}  // namespace pvrdma::driver
