#include "device/interrupts.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "device/adapter_log.h"
#include "device/eventfd_signal.h"

namespace pvrdma::device {
namespace {

constexpr std::uint32_t cause_of(std::size_t vector) {
  return 1u << vector;
}
static_assert(cause_of(static_cast<std::size_t>(abi::Vector::kResponse)) == abi::kInterruptResponse);
static_assert(cause_of(static_cast<std::size_t>(abi::Vector::kAsyncEvent)) == abi::kInterruptAsyncEvent);
static_assert(cause_of(static_cast<std::size_t>(abi::Vector::kNotification)) == abi::kInterruptCq);

}  // namespace

int Interrupts::assign(std::uint32_t vector, ClientFd eventfd) {
  if (vector >= abi::kVectorCount) return EINVAL;
  if (eventfd && !is_eventfd(eventfd.get())) return EINVAL;
  eventfds_[vector] = ClientEventfd(std::move(eventfd));
  return 0;
}

void Interrupts::unassign_all() {
  eventfds_ = {};
}

std::uint32_t Interrupts::assigned() const {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(eventfds_, [](const ClientEventfd& fd) { return bool{fd}; }));
}

void Interrupts::raise(abi::Vector vector) {
  const auto index = static_cast<std::size_t>(vector);
  PVRDMA_CHECK(index < abi::kVectorCount, "a vector outside its enumeration");
  causes_ |= cause_of(index);
  if ((mask_ & cause_of(index)) != 0) {
    held_by_mask_ |= cause_of(index);
    return;
  }
  signal(index);
}

void Interrupts::set_mask(std::uint32_t mask) {
  mask_ = mask;
  const std::uint32_t due = held_by_mask_ & ~mask;
  held_by_mask_ &= mask;
  for (std::size_t vector = 0; vector < abi::kVectorCount; ++vector) {
    if ((due & cause_of(vector)) != 0) signal(vector);
  }
}

std::uint32_t Interrupts::take_causes() {
  return std::exchange(causes_, 0);
}

void Interrupts::reset() {
  mask_ = abi::kImrAllEnabled;
  causes_ = 0;
  held_by_mask_ = 0;
}

std::uint64_t Interrupts::raised_total() const {
  std::uint64_t total = 0;
  for (const std::uint64_t count : raised_) total += count;
  return total;
}

void Interrupts::signal(std::size_t vector) {
  if (!eventfds_[vector]) return;
  const ClientEventfd::Signal signal = eventfds_[vector].signal(clock_);
  if (signal != ClientEventfd::Signal::kFailed) ++raised_[vector];
  if (signal != ClientEventfd::Signal::kMadeSlowly) return;
  ++slow_;
  log_.interrupt_was_slow(vector);
}

}  // namespace pvrdma::device
