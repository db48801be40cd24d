#include "driver/shared_receive_queue.h"

#include <bit>
#include <cerrno>
#include <fmt/core.h>

#include "abi/ring.h"
#include "driver/device.h"

namespace pvrdma::driver {

Result<std::unique_ptr<SharedReceiveQueue>> SharedReceiveQueue::create(ProtectionDomain& pd,
                                                                       const SrqOptions& options) {
  Device& device = pd.context().device();
  if (device.caps().max_srq == 0) return fail(EOPNOTSUPP, "the device has no shared receive queues");
  const auto stride = abi::recv_wqe_stride(options.max_sge);
  if (!stride || options.max_wr == 0 || options.max_wr > device.caps().max_srq_wr) {
    return fail(EINVAL,
                fmt::format("an SRQ of {} requests with {} SGEs: the device allows {} and {}", options.max_wr,
                            options.max_sge, device.caps().max_srq_wr, device.caps().max_srq_sge));
  }
  const std::uint32_t count = std::bit_ceil(options.max_wr);
  // The provider allocates twice the pages that it needs (4.4). This library does so too, to look the same to
  // the device.
  auto pages = device.ram().allocate(abi::kPageBytes + std::size_t{2} * count * *stride);
  if (!pages) return Failure(std::move(pages.error()));
  auto directory = PageDirectory::of(device.ram(), (*pages)->pages());
  if (!directory) return Failure(std::move(directory.error()));

  std::byte* base = (*pages)->data();
  const WorkRing ring(RingState(base + offsetof(abi::RingState, rx)), base + abi::kPageBytes, count, *stride);
  std::unique_ptr<SharedReceiveQueue> made(
      new SharedReceiveQueue(pd, std::move(*pages), std::move(*directory), ring, options.max_sge));
  auto answer = device.commands().call<abi::CreateSrqResponse>(
      abi::Command::kCreateSrq,
      abi::CreateSrqRequest{
          .pdir_dma = made->directory_->gpa().value,
          .pd_handle = pd.handle(),
          .nchunks = static_cast<std::uint32_t>(made->pages_->pages().size()),
          .attrs = {.max_wr = count, .max_sge = options.max_sge, .srq_limit = options.limit}});
  if (!answer) return Failure(std::move(answer.error()));
  made->handle_ = answer->srqn;
  made->alive_ = true;
  return made;
}

SharedReceiveQueue::~SharedReceiveQueue() {
  (void)destroy();
}

Result<> SharedReceiveQueue::destroy() {
  if (!alive_) return {};
  auto done = pd_.context().device().commands().run(abi::Command::kDestroySrq,
                                                    abi::DestroySrqRequest{.srq_handle = handle_});
  if (done) alive_ = false;
  return done;
}

Posted SharedReceiveQueue::post_recv(std::span<const ReceiveRequest> requests, Doorbell doorbell) {
  Posted posted = put_all(ring_, max_sge_, requests);
  if (posted.count == 0 || doorbell == Doorbell::kSkip) return posted;
  if (!pd_.context().ring(abi::UarWord::kSrq, handle_ | abi::kSrqDoorbellRecv))
    posted.status = PostStatus::kBusError;
  return posted;
}

Result<> SharedReceiveQueue::set_limit(std::uint32_t limit) {
  return pd_.context().device().commands().run(
      abi::Command::kModifySrq,
      abi::ModifySrqRequest{
          .srq_handle = handle_, .attr_mask = abi::kSrqAttrLimit, .attrs = {.srq_limit = limit}});
}

Result<abi::SrqAttr> SharedReceiveQueue::query() {
  auto answer = pd_.context().device().commands().call<abi::QuerySrqResponse>(
      abi::Command::kQuerySrq, abi::QuerySrqRequest{.srq_handle = handle_});
  if (!answer) return Failure(std::move(answer.error()));
  return answer->attrs;
}

}  // namespace pvrdma::driver
