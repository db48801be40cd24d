#include "driver/completion_queue.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <fmt/core.h>
#include <utility>

#include "abi/ring.h"
#include "driver/device.h"
#include "driver/queue_pair.h"

namespace pvrdma::driver {
namespace {

WorkCompletion decode(const abi::Cqe& cqe, std::uint32_t qpn) {
  WorkCompletion done;
  done.wr_id = cqe.wr_id;
  done.status = abi::parse_completion_status(cqe.status).value_or(abi::CompletionStatus::kGeneral);
  done.opcode = abi::parse_completion_opcode(cqe.opcode).value_or(abi::CompletionOpcode::kSend);
  done.qpn = qpn;
  done.byte_len = cqe.byte_len;
  if ((cqe.wc_flags & abi::kWcWithImm) != 0) done.immediate = cqe.imm_data.to_host();
  if ((cqe.wc_flags & abi::kWcWithInvalidate) != 0) done.invalidated = cqe.imm_data.raw;
  done.src_qpn = cqe.src_qp;
  done.flags = cqe.wc_flags;
  done.vendor_error = cqe.vendor_err;
  done.network = static_cast<abi::NetworkHdrType>(cqe.network_hdr_type);
  done.pkey_index = cqe.pkey_index;
  done.service_level = cqe.sl;
  done.port_num = cqe.port_num;
  return done;
}

}  // namespace

Result<std::unique_ptr<CompletionQueue>> CompletionQueue::create(Context& context, std::uint32_t entries,
                                                                 Placement placement) {
  Device& device = context.device();
  if (entries == 0 || entries > device.caps().max_cqe) {
    return fail(EINVAL,
                fmt::format("a CQ of {} entries: the device allows 1 to {}", entries, device.caps().max_cqe));
  }
  entries = std::bit_ceil(entries);
  auto pages = device.ram().allocate(abi::kPageBytes + std::size_t{entries} * sizeof(abi::Cqe), placement);
  if (!pages) return Failure(std::move(pages.error()));
  auto directory = PageDirectory::of(device.ram(), (*pages)->pages());
  if (!directory) return Failure(std::move(directory.error()));
  auto answer = device.commands().call<abi::CreateCqResponse>(
      abi::Command::kCreateCq,
      abi::CreateCqRequest{.pdir_dma = (*directory)->gpa().value,
                           .ctx_handle = context.handle(),
                           .cqe = entries,
                           .nchunks = static_cast<std::uint32_t>((*pages)->pages().size())});
  if (!answer) return Failure(std::move(answer.error()));
  if (answer->cqe != entries || !device.is_valid_cq_handle(answer->cq_handle)) {
    return fail(EPROTO, fmt::format("the device made a CQ of {} entries, handle {}; {} were asked for",
                                    answer->cqe, answer->cq_handle, entries));
  }
  std::unique_ptr<CompletionQueue> made(
      new CompletionQueue(context, answer->cq_handle, entries, std::move(*pages), std::move(*directory)));
  device.register_cq(made->handle_, made.get());
  return made;
}

CompletionQueue::CompletionQueue(Context& context, std::uint32_t handle, std::uint32_t entries,
                                 std::unique_ptr<Buffer> pages, std::unique_ptr<PageDirectory> directory)
    : context_(context),
      handle_(handle),
      pages_(std::move(pages)),
      directory_(std::move(directory)),
      ring_(RingState(pages_->data() + offsetof(abi::RingState, rx)), pages_->data() + abi::kPageBytes,
            entries, sizeof(abi::Cqe)) {}

CompletionQueue::~CompletionQueue() {
  (void)destroy();
  if (alive_) context_.device().register_cq(handle_, nullptr);
}

Result<> CompletionQueue::destroy() {
  if (!alive_) return {};
  auto done =
      context_.device().commands().run(abi::Command::kDestroyCq, abi::DestroyCqRequest{.cq_handle = handle_});
  if (done) {
    alive_ = false;
    context_.device().register_cq(handle_, nullptr);
  }
  return done;
}

std::size_t CompletionQueue::poll(std::span<WorkCompletion> out, WhenEmpty when_empty) {
  const std::size_t count = take(out);
  if (count != 0 || when_empty == WhenEmpty::kReturn || fault_ != Fault::kNone || out.empty()) return count;
  if (!context_.ring(abi::UarWord::kCq, handle_ | abi::kCqDoorbellPoll)) return 0;
  return take(out);
}

std::size_t CompletionQueue::take(std::span<WorkCompletion> out) {
  std::size_t count = 0;
  while (count < out.size()) {
    const std::byte* element = nullptr;
    const RingStatus status = ring_.front(element);
    if (status == RingStatus::kBroken) fault_ = Fault::kInvalidIndex;
    if (status != RingStatus::kReady) break;
    abi::Cqe cqe;
    std::memcpy(&cqe, element, sizeof(cqe));
    const QueuePair* qp = context_.device().qp_at(cqe.qp & 0xffff);
    if (qp == nullptr) {  // the real consumers neither deliver nor skip it
      fault_ = Fault::kUnknownQp;
      break;
    }
    ring_.consume();
    out[count++] = decode(cqe, qp->qpn());
  }
  return count;
}

Result<> CompletionQueue::arm(Solicited which) {
  const std::uint32_t bit = which == Solicited::kOnly ? abi::kCqDoorbellArmSolicited : abi::kCqDoorbellArm;
  return context_.ring(abi::UarWord::kCq, handle_ | bit);
}

bool CompletionQueue::wait(Duration timeout) {
  const Instant deadline = Instant::now() + timeout;
  while (events_ == 0) {
    const Duration left = deadline - Instant::now();
    if (context_.device().wait_notifications(left) == 0 && left <= Duration{0}) return false;
  }
  --events_;
  return true;
}

std::uint64_t CompletionQueue::take_events() {
  context_.device().dispatch_notifications();
  return std::exchange(events_, 0);
}

// Moves the entries of other QPs towards the tail, then advances the head past the dropped ones, as Linux and
// the provider do.
void CompletionQueue::purge(std::uint32_t qp_handle) {
  const std::uint32_t n = ring_.count();
  const std::uint32_t tail = ring_.state().tail(std::memory_order_acquire);
  const std::uint32_t head = ring_.state().head(std::memory_order_relaxed);
  if (!RingIndex::valid(tail, n) || !RingIndex::valid(head, n)) return;
  std::uint32_t keep = tail;  // the next kept entry goes just before it
  for (std::uint32_t at = tail; at != head;) {
    at = RingIndex::previous(at, n);
    const std::byte* from = ring_.element(RingIndex::slot(at, n));
    std::uint64_t handle = 0;
    std::memcpy(&handle, from + offsetof(abi::Cqe, qp), sizeof(handle));
    if ((handle & 0xffff) == qp_handle) continue;
    keep = RingIndex::previous(keep, n);
    if (keep != at) std::memcpy(ring_.element(RingIndex::slot(keep, n)), from, sizeof(abi::Cqe));
  }
  ring_.state().set_head(keep);
}

}  // namespace pvrdma::driver
