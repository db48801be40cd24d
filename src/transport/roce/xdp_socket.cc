#include "transport/roce/xdp_socket.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <thread>
#include <utility>

#include "base/check.h"

namespace pvrdma::transport::roce {
namespace {

// From <linux/if_xdp.h> since 6.6.
constexpr std::uint16_t kUseSeveralChunks = 1 << 4;  // XDP_USE_SG
constexpr std::uint32_t kMoreFollows = 1 << 0;       // XDP_PKT_CONTD

// The device stays in use for a moment after a process has ended.
constexpr int kAttempts = 20;
constexpr auto kAttemptsApart = std::chrono::milliseconds(50);

constexpr int kKicksMax = 64;                       // the kernel takes at least 32 descriptors each time
constexpr int kBytesUnderWayMax = 8 * 1024 * 1024;  // the kernel's accounting; more than the slots hold

Failure refusal(std::string_view doing) {
  if (errno == EPERM) return fail(EPERM, std::string(doing) + ": not permitted: give the daemon CAP_NET_RAW");
  return fail_errno(errno, doing);
}

}  // namespace

Result<std::unique_ptr<XdpSocket>> XdpSocket::open(unsigned device_index, Frames frames) {
  for (int attempt = 1;; ++attempt) {
    std::unique_ptr<XdpSocket> socket(new XdpSocket);
    auto made = socket->set_up(device_index, frames);
    if (made) return socket;
    if (made.error().code != EBUSY || attempt == kAttempts) return Failure(std::move(made).error());
    std::this_thread::sleep_for(kAttemptsApart);
  }
}

XdpSocket::~XdpSocket() {
  fd_.reset();
  for (const Mapping& each : std::span(mappings_).first(mapped_)) ::munmap(each.at, each.bytes);
}

Result<void> XdpSocket::set_up(unsigned device_index, Frames frames) {
  fd_ = Fd(::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (!fd_) return refusal("cannot make an AF_XDP socket");
  void* const memory = ::mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) return fail_errno(errno, "cannot allocate the memory for frames");
  mappings_[mapped_++] = {memory, kMemoryBytes};
  memory_ = static_cast<std::byte*>(memory);
  xdp_umem_reg region{};
  region.addr = reinterpret_cast<std::uintptr_t>(memory);
  region.len = kMemoryBytes;
  region.chunk_size = kChunkBytes;
  if (::setsockopt(fd_.get(), SOL_XDP, XDP_UMEM_REG, &region, sizeof(region)) != 0) {
    if (errno != ENOBUFS && errno != ENOMEM) return refusal("cannot share memory with the kernel");
    return fail(errno,
                fmt::format("cannot share memory with the kernel: raise the limit of locked memory by {} MiB",
                            kMemoryBytes >> 20));
  }
  // Frames count until they are sent. Without the privilege to exceed the system's limit, fewer frames are in
  // flight.
  if (::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kBytesUnderWayMax, sizeof(int)) != 0) {
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDBUF, &kBytesUnderWayMax, sizeof(int));
  }
  if (auto made = make_rings(); !made) return made;
  for (std::uint32_t i = 0; i < kReceiveChunks; ++i) fill_.push(std::uint64_t{i} * kChunkBytes);
  fill_.publish_produced();
  for (std::uint32_t i = 0; i < kSlots; ++i) free_[i] = kSlots - 1 - i;
  free_count_ = kSlots;

  sockaddr_xdp address{};
  address.sxdp_family = AF_XDP;
  address.sxdp_flags = XDP_USE_NEED_WAKEUP;
  if (frames == Frames::kSeveralChunks) address.sxdp_flags |= kUseSeveralChunks;
  address.sxdp_ifindex = device_index;
  if (::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return {};
  if (errno == EBUSY) {
    return fail(EBUSY,
                "another AF_XDP socket is bound to the device: end its program, or name another device");
  }
  return refusal("cannot bind an AF_XDP socket to the device");
}

Result<void> XdpSocket::make_rings() {
  const auto make = [this](int option, std::uint32_t size) {
    return ::setsockopt(fd_.get(), SOL_XDP, option, &size, sizeof(size)) == 0;
  };
  xdp_mmap_offsets offsets{};
  socklen_t length = sizeof(offsets);
  if (!make(XDP_UMEM_FILL_RING, kReceiveChunks) || !make(XDP_UMEM_COMPLETION_RING, kSendEntries) ||
      !make(XDP_RX_RING, kReceiveChunks) || !make(XDP_TX_RING, kSendEntries) ||
      ::getsockopt(fd_.get(), SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &length) != 0) {
    return fail_errno(errno, "cannot make the rings of an AF_XDP socket");
  }
  auto fill = map_ring<std::uint64_t>(offsets.fr, XDP_UMEM_PGOFF_FILL_RING, kReceiveChunks);
  auto completion = map_ring<std::uint64_t>(offsets.cr, XDP_UMEM_PGOFF_COMPLETION_RING, kSendEntries);
  auto receive = map_ring<xdp_desc>(offsets.rx, XDP_PGOFF_RX_RING, kReceiveChunks);
  auto send = map_ring<xdp_desc>(offsets.tx, XDP_PGOFF_TX_RING, kSendEntries);
  if (!fill || !completion || !receive || !send) {
    return fail_errno(errno, "cannot map the rings of an AF_XDP socket");
  }
  fill_ = *fill;
  completion_ = *completion;
  receive_ = *receive;
  send_ = *send;
  return {};
}

template <typename Entry>
Result<XdpRing<Entry>> XdpSocket::map_ring(const xdp_ring_offset& offset, std::uint64_t page,
                                           std::uint32_t size) {
  const std::size_t bytes = offset.desc + size * sizeof(Entry);
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_.get(),
                          static_cast<off_t>(page));
  if (at == MAP_FAILED) return fail_errno(errno, "cannot map a ring of an AF_XDP socket");
  mappings_[mapped_++] = {at, bytes};
  const auto word = [at](std::uint64_t where) {
    return reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(at) + where);
  };
  return XdpRing<Entry>(word(offset.producer), word(offset.consumer), word(offset.flags),
                        reinterpret_cast<Entry*>(static_cast<std::byte*>(at) + offset.desc), size);
}

bool XdpSocket::is_zero_copy() const {
  xdp_options options{};
  socklen_t length = sizeof(options);
  return ::getsockopt(fd_.get(), SOL_XDP, XDP_OPTIONS, &options, &length) == 0 &&
         (options.flags & XDP_OPTIONS_ZEROCOPY) != 0;
}

std::optional<XdpSocket::Arrived> XdpSocket::next() {
  if (receive_.waiting() == 0) return std::nullopt;
  const xdp_desc desc = receive_.front();
  receive_.pop();
  fill_.push(desc.addr & ~std::uint64_t{kChunkBytes - 1});
  return Arrived{{memory_ + desc.addr, desc.len}, (desc.options & kMoreFollows) != 0};
}

void XdpSocket::done() {
  receive_.publish_consumed();
  fill_.publish_produced();
  if ((fill_.flags() & XDP_RING_NEED_WAKEUP) != 0) {
    ::recvfrom(fd_.get(), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
  }
}

std::byte* XdpSocket::slot() {
  if (free_count_ == 0) reclaim();
  if (free_count_ == 0) return nullptr;
  return memory_ + kReceiveBytes + free_[free_count_ - 1] * kSlotBytes;
}

void XdpSocket::send(std::size_t bytes) {
  PVRDMA_CHECK(free_count_ != 0 && bytes <= kSlotBytes, "a slot is free, and the frame fits into it");
  const std::uint32_t slot = free_[--free_count_];
  const std::uint64_t at = kReceiveBytes + std::uint64_t{slot} * kSlotBytes;
  is_long_[slot] = bytes > kChunkBytes;
  const std::size_t first = std::min(bytes, kChunkBytes);
  send_.push({at, static_cast<std::uint32_t>(first), is_long_[slot] ? kMoreFollows : 0});
  if (is_long_[slot]) send_.push({at + kChunkBytes, static_cast<std::uint32_t>(bytes - first), 0});
}

// A frame's descriptors complete in order, so the last one frees the slot.
void XdpSocket::reclaim() {
  std::uint32_t waiting = completion_.waiting();
  if (waiting == 0) return;
  for (; waiting != 0; --waiting) {
    const std::uint64_t at = completion_.front() - kReceiveBytes;
    completion_.pop();
    const auto slot = static_cast<std::uint32_t>(at / kSlotBytes);
    const bool is_second = at % kSlotBytes != 0;
    if (is_second == is_long_[slot]) free_[free_count_++] = slot;
  }
  completion_.publish_consumed();
}

bool XdpSocket::needs_kick() const {
  return send_.unconsumed() != 0 && (send_.flags() & XDP_RING_NEED_WAKEUP) != 0;
}

int XdpSocket::kick() {
  send_.publish_produced();
  for (int i = 0; i < kKicksMax && needs_kick(); ++i) {
    const std::uint32_t before = send_.unconsumed();
    if (::sendto(fd_.get(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) >= 0) continue;
    if (errno != EAGAIN || send_.unconsumed() == before) return errno;  // EAGAIN: the kernel took some
  }
  return 0;
}

}  // namespace pvrdma::transport::roce
