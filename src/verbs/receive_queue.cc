#include "verbs/receive_queue.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "guestmem/page_directory.h"

namespace pvrdma::verbs {
namespace {

constexpr std::size_t kRecvWqeBytesMax = sizeof(abi::RecvWqeHeader) + kSgeMax * sizeof(abi::Sge);

// Returns nullopt if an SRQ must not have these values.
std::optional<guestmem::RingShape> shape_of(const CreateSrq& request, const Limits& limits) {
  if (!std::has_single_bit(request.max_wr) || request.max_wr > limits.max_srq_wr ||
      request.max_sge > limits.max_sge || request.limit > request.max_wr)
    return std::nullopt;
  const std::optional<std::uint32_t> stride = abi::recv_wqe_stride(request.max_sge);
  if (!stride) return std::nullopt;
  return guestmem::RingShape{.role = guestmem::RingRole::kConsumer,
                             .words = guestmem::RingWords::kRx,
                             .element_count = request.max_wr,
                             .stride_bytes = *stride};
}

}  // namespace

Taken ReceiveQueue::take(ReceiveWork& out) {
  std::array<std::byte, kRecvWqeBytesMax> wqe;  // the only copy; not initialised, as pop() fills what is read
  const std::uint32_t max_sge = std::min(max_sge_, kSgeMax);
  const std::size_t wqe_bytes = sizeof(abi::RecvWqeHeader) + max_sge * sizeof(abi::Sge);
  switch (ring_.pop(std::span(wqe).first(wqe_bytes))) {
    case guestmem::RingStatus::kOk:
      break;
    case guestmem::RingStatus::kEmpty:
      return Taken::kEmpty;
    case guestmem::RingStatus::kFull:
    case guestmem::RingStatus::kInvalidIndex:
    case guestmem::RingStatus::kUnmapped:
      return Taken::kBroken;
  }

  abi::RecvWqeHeader header;
  std::memcpy(&header, wqe.data(), sizeof header);
  out.wr_id = header.wr_id;
  out.total_bytes = 0;
  out.bad = header.num_sge > max_sge;
  out.sge_count = out.bad ? 0 : header.num_sge;
  std::memcpy(out.sges.data(), wqe.data() + sizeof header, out.sge_count * sizeof(abi::Sge));
  for (std::uint32_t i = 0; i < out.sge_count; ++i) out.total_bytes += out.sges[i].length;
  return Taken::kOne;
}

std::uint32_t ReceiveQueue::available() {
  return ring_.used().count;
}

Outcome<std::unique_ptr<SharedReceiveQueue>> SharedReceiveQueue::create(SrqHandle handle,
                                                                        const CreateSrq& request,
                                                                        const Limits& limits,
                                                                        const guestmem::AddressSpace& memory,
                                                                        EventSink& events) {
  const std::optional<guestmem::RingShape> shape = shape_of(request, limits);
  if (!shape) return refuse(CommandError::kInvalid);
  // The guest's provider announces about twice as many pages as it needs (reference 4.4). Only the pages that
  // the ring occupies are read.
  const std::uint64_t pages_needed = shape->first_page + shape->data_pages();
  if (request.page_count < pages_needed || pages_needed > guestmem::kMaxDirectoryPages)
    return refuse(CommandError::kInvalid);

  guestmem::PageList pages;
  const guestmem::DirectoryStatus status = guestmem::read_page_directory(
      memory, guestmem::GuestPhys(request.page_directory), static_cast<std::uint32_t>(pages_needed),
      guestmem::kMaxDirectoryPages, pages);
  if (status != guestmem::DirectoryStatus::kOk) return refuse(CommandError::kBadAddress);
  std::optional<guestmem::GuestRing> ring = guestmem::GuestRing::create(memory, pages, *shape);
  if (!ring) return refuse(CommandError::kInvalid);
  return std::unique_ptr<SharedReceiveQueue>(
      new SharedReceiveQueue(handle, request, ReceiveQueue(std::move(*ring), request.max_sge), events));
}

SharedReceiveQueue::SharedReceiveQueue(SrqHandle handle, const CreateSrq& request, ReceiveQueue queue,
                                       EventSink& events)
    : handle_(handle),
      pd_(request.pd),
      context_(request.context),
      queue_(std::move(queue)),
      events_(events),
      max_wr_(request.max_wr),
      max_sge_(request.max_sge),
      limit_(request.limit) {}

SavedSrq SharedReceiveQueue::save() const {
  // The loading engine counts references and charges pages again. It finds the context through the PD.
  const auto& [references_, held_, waiting_, handle, pd, context, queue, events, max_wr, max_sge, limit] =
      *this;
  return {
      .handle = handle, .pd = pd, .max_wr = max_wr, .max_sge = max_sge, .limit = limit, .ring = queue.save()};
}

std::unique_ptr<SharedReceiveQueue> SharedReceiveQueue::restore(const SavedSrq& saved, ContextHandle context,
                                                                const Limits& limits,
                                                                const guestmem::AddressSpace& memory,
                                                                EventSink& events) {
  const auto& [handle, pd, max_wr, max_sge, limit, saved_ring] = saved;
  const CreateSrq request{.pd = pd, .context = context, .max_wr = max_wr, .max_sge = max_sge, .limit = limit};
  const std::optional<guestmem::RingShape> shape = shape_of(request, limits);
  if (!shape) return nullptr;
  std::optional<guestmem::GuestRing> ring = guestmem::GuestRing::restore(memory, saved_ring, *shape);
  if (!ring) return nullptr;
  return std::unique_ptr<SharedReceiveQueue>(
      new SharedReceiveQueue(handle, request, ReceiveQueue(std::move(*ring), max_sge), events));
}

Taken SharedReceiveQueue::take(ReceiveWork& out) {
  const Taken taken = queue_.take(out);
  if (taken == Taken::kOne) check_limit();
  return taken;
}

void SharedReceiveQueue::check_limit() {
  if (limit_ == 0 || queue_.available() >= limit_) return;
  limit_ = 0;
  events_.async_event(abi::EventType::kSrqLimitReached, handle_.value);
}

Outcome<> SharedReceiveQueue::set_limit(std::uint32_t limit) {
  if (limit > max_wr_) return refuse(CommandError::kInvalid);
  limit_ = limit;
  check_limit();
  return {};
}

}  // namespace pvrdma::verbs
