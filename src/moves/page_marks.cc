#include "moves/page_marks.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <new>
#include <span>
#include <system_error>

#include "guestmem/copy.h"

namespace pvrdma::moves {

Result<PageMarks::State> PageMarks::step(adapters::SeatedAdapter& seated) {
  guestmem::AddressSpace& memory = seated.adapter().memory();
  for (std::size_t sent = 0; sent < kUnderWayMax && seated.seat().can_request(); ++sent) {
    {
      const std::lock_guard lock(mutex_);
      if (under_way_ >= kUnderWayMax) return State::kMore;
    }
    const auto run = logged_.next(memory, kMessageBytes);
    if (!run) return Failure(run.error());
    if (!*run) return State::kSent;
    const guestmem::GuestPhys begin = (*run)->begin;
    bytes_.resize((*run)->page_count * guestmem::kPageBytes);
    {
      const std::lock_guard lock(mutex_);
      ++under_way_;
    }
    const auto answered = [self = shared_from_this()](int error, std::span<const std::byte>) {
      {
        const std::lock_guard lock(self->mutex_);
        --self->under_way_;
        ++self->answers_;
        if (self->error_ == 0) self->error_ = error;
      }
      self->answered_.notify_one();
    };
    const auto not_sent = [this] {
      const std::lock_guard lock(mutex_);
      --under_way_;
    };
    Result<void> asked;
    try {
      // The read fails if the page is not RAM any more.
      asked = guestmem::read(memory, begin, bytes_)
                  ? seated.seat().dma_write(begin.value, bytes_, answered)
                  : fail(EFAULT, fmt::format("a page at {:#x} vanished", begin.value));
    } catch (const std::bad_alloc&) {
      not_sent();
      throw;
    }
    seated.follow();
    if (!asked) {
      not_sent();
      return Failure(std::move(asked).error());
    }
  }
  return State::kMore;
}

Result<void> PageMarks::wait(bool all, Instant until) {
  std::unique_lock lock(mutex_);
  const auto left = until - Instant::now();
  const bool came = answered_.wait_for(lock, std::max<Duration>(left, Duration{}), [&] {
    return error_ != 0 || under_way_ == 0 || (!all && answers_ != waited_for_);
  });
  waited_for_ = answers_;
  if (error_ != 0) {
    return fail(error_, fmt::format("the VMM does not take the pages that the adapter wrote: {}",
                                    std::generic_category().message(error_)));
  }
  if (!came) return fail(ETIMEDOUT, "the VMM does not take the pages that the adapter wrote in time");
  return {};
}

bool PageMarks::drain(Instant until) {
  std::unique_lock lock(mutex_);
  return answered_.wait_for(lock, std::max<Duration>(until - Instant::now(), Duration{}),
                            [this] { return under_way_ == 0; });
}

}  // namespace pvrdma::moves
