#include "verbs/completion_queue.h"

#include <bit>
#include <span>
#include <utility>

#include "verbs/completion_watch.h"

namespace pvrdma::verbs {
namespace {

constexpr guestmem::RingShape shape_of(std::uint32_t cqe_count) {
  return {.role = guestmem::RingRole::kProducer,
          .words = guestmem::RingWords::kRx,
          .element_count = cqe_count,
          .stride_bytes = sizeof(abi::Cqe)};
}

bool is_size(std::uint32_t cqe_count, const Limits& limits) {
  return std::has_single_bit(cqe_count) && cqe_count <= limits.max_cqe;
}

}  // namespace

Outcome<std::unique_ptr<CompletionQueue>> CompletionQueue::create(CqHandle handle, const CreateCq& request,
                                                                  const Limits& limits,
                                                                  const guestmem::AddressSpace& memory,
                                                                  EventSink& events) {
  if (!is_size(request.cqe_count, limits)) return refuse(CommandError::kInvalid);
  const guestmem::RingShape shape = shape_of(request.cqe_count);
  const std::uint64_t pages_needed = shape.first_page + shape.data_pages();
  if (request.page_count < pages_needed || pages_needed > guestmem::kMaxDirectoryPages)
    return refuse(CommandError::kInvalid);

  guestmem::PageList pages;
  const guestmem::DirectoryStatus status = guestmem::read_page_directory(
      memory, guestmem::GuestPhys(request.page_directory), static_cast<std::uint32_t>(pages_needed),
      guestmem::kMaxDirectoryPages, pages);
  if (status != guestmem::DirectoryStatus::kOk) return refuse(CommandError::kBadAddress);
  std::optional<guestmem::GuestRing> ring = guestmem::GuestRing::create(memory, pages, shape);
  if (!ring) return refuse(CommandError::kInvalid);
  return std::unique_ptr<CompletionQueue>(
      new CompletionQueue(handle, request.context, std::move(*ring), events));
}

CompletionQueue::CompletionQueue(CqHandle handle, ContextHandle context, guestmem::GuestRing ring,
                                 EventSink& events)
    : handle_(handle), context_(context), ring_(std::move(ring)), events_(events) {}

SavedCq CompletionQueue::save() const {
  // The loading engine counts references, charges pages and watches the CQ again.
  const auto& [references_, held_, watched_, link_, handle, context, ring, events, armed, in_error,
               unannounced, unannounced_solicited] = *this;
  return {.handle = handle,
          .context = context,
          .cqe_count = ring.element_count(),
          .ring = ring.save(),
          .armed = armed,
          .in_error = in_error,
          .unannounced = unannounced,
          .unannounced_solicited = unannounced_solicited};
}

std::unique_ptr<CompletionQueue> CompletionQueue::restore(const SavedCq& saved, const Limits& limits,
                                                          const guestmem::AddressSpace& memory,
                                                          EventSink& events) {
  const auto& [handle, context, cqe_count, saved_ring, armed, in_error, unannounced, unannounced_solicited] =
      saved;
  if (!is_size(cqe_count, limits)) return nullptr;
  std::optional<guestmem::GuestRing> ring =
      guestmem::GuestRing::restore(memory, saved_ring, shape_of(cqe_count));
  if (!ring) return nullptr;
  std::unique_ptr<CompletionQueue> cq(new CompletionQueue(handle, context, std::move(*ring), events));
  cq->armed_ = armed;
  cq->in_error_ = in_error;
  cq->unannounced_ = unannounced;
  cq->unannounced_solicited_ = unannounced_solicited;
  return cq;
}

CompletionQueue::Pushed CompletionQueue::push(const abi::Cqe& cqe, Solicited solicited) {
  if (in_error_) return Pushed::kFailed;
  if (ring_.push(std::as_bytes(std::span(&cqe, 1))) != guestmem::RingStatus::kOk) return enter_error();

  const bool is_error = cqe.status != static_cast<std::uint32_t>(abi::CompletionStatus::kSuccess);
  const bool is_solicited = solicited == Solicited::kYes || is_error;
  if (armed_ == Armed::kAny || (armed_ == Armed::kSolicited && is_solicited)) {
    fire();
  } else {
    unannounced_ = true;
    unannounced_solicited_ |= is_solicited;
    if (watched.by != nullptr) watched.by->on_pushed(*this);
  }
  return Pushed::kOk;
}

void CompletionQueue::arm(Arm what) {
  if (watched.by != nullptr) watched.by->on_armed(*this, what);
  if (armed_ != Armed::kAny) armed_ = what == Arm::kAny ? Armed::kAny : Armed::kSolicited;
  if (!(armed_ == Armed::kAny ? unannounced_ : unannounced_solicited_)) return;
  const guestmem::GuestRing::Used used = ring_.used();
  const bool taken = used.status == guestmem::RingStatus::kOk && used.count == 0;
  if (taken && !watched.maybe_armed_at_push) {
    unannounced_ = unannounced_solicited_ = false;  // the guest polled all of them before this ARM
  } else {
    fire();
  }
}

void CompletionQueue::fire() {
  armed_ = Armed::kNo;
  unannounced_ = unannounced_solicited_ = false;
  if (watched.by != nullptr) watched.by->on_fired(*this);
  events_.completion_event(handle_);
}

CompletionQueue::Pushed CompletionQueue::enter_error() {
  in_error_ = true;
  events_.async_event(abi::EventType::kCqErr, handle_.value);
  return Pushed::kFailed;
}

}  // namespace pvrdma::verbs
