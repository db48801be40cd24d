#include "device/interrupts.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "base/check.h"

namespace pvrdma::device {
namespace {

constexpr std::uint32_t cause_of(std::size_t vector) {
  return 1u << vector;
}
static_assert(cause_of(static_cast<std::size_t>(abi::Vector::kResponse)) == abi::kInterruptResponse);
static_assert(cause_of(static_cast<std::size_t>(abi::Vector::kAsyncEvent)) == abi::kInterruptAsyncEvent);
static_assert(cause_of(static_cast<std::size_t>(abi::Vector::kNotification)) == abi::kInterruptCq);

bool is_eventfd(int fd) {
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", fd);
  std::array<char, 64> target{};
  const ssize_t length = ::readlink(path.data(), target.data(), target.size());
  if (length > 0)
    return std::string_view(target.data(), static_cast<std::size_t>(length)) == "anon_inode:[eventfd]";
  // No /proc (a container, hardening): then at least none of the things that have a name or a peer.
  struct stat status {};
  return ::fstat(fd, &status) == 0 && (status.st_mode & S_IFMT) == 0;
}

}  // namespace

int Interrupts::assign(std::uint32_t vector, Fd eventfd) {
  if (vector >= abi::kVectorCount) return EINVAL;
  if (eventfd) {
    if (!is_eventfd(eventfd.get())) return EINVAL;
    const int flags = ::fcntl(eventfd.get(), F_GETFL);
    if (flags < 0 || ::fcntl(eventfd.get(), F_SETFL, flags | O_NONBLOCK) < 0) return EINVAL;
  }
  eventfds_[vector] = std::move(eventfd);
  return 0;
}

void Interrupts::unassign_all() {
  for (Fd& fd : eventfds_) fd.reset();
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
  const std::uint64_t one = 1;
  // EAGAIN: 2^64-2 signals wait to be read. Nothing else can fail on an eventfd, and no caller could do
  // better.
  [[maybe_unused]] const ssize_t written = ::write(eventfds_[vector].get(), &one, sizeof one);
  ++raised_[vector];
}

}  // namespace pvrdma::device
