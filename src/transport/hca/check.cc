#include "transport/hca/check.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fmt/core.h>
#include <optional>
#include <sys/mman.h>
#include <utility>

namespace pvrdma::transport::hca {
namespace {

constexpr std::uint32_t kUnderWay = 32;
constexpr std::uint32_t kLongBytes = 64 * 1024;
constexpr std::uint32_t kShortBytes = 64;
constexpr std::uint32_t kSlotBytesOfCheck = 4096;
constexpr std::uint32_t kReadsMost = 16;
constexpr Duration kPatience = std::chrono::seconds(5);  // for one completion
// Local ACK Timeout: retries end after 3.8 s. The device talks to itself, so a late answer means a busy host,
// as with Soft-RoCE, and not a dead peer.
constexpr std::uint8_t kTimeout = 17;
constexpr std::int64_t kMibOfGib = 1024;

class Mapping {
 public:
  explicit Mapping(std::size_t bytes)
      : bytes_(bytes),
        data_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                     0)) {}
  ~Mapping() {
    if (is_there()) ::munmap(data_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  bool is_there() const { return data_ != MAP_FAILED; }
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(data_), bytes_}; }

 private:
  const std::size_t bytes_;
  void* const data_;
};

struct NoCqUser final : CqUser {
  void on_completions() override {}
};

// Two connected QPs of one device that share one CQ and one region.
class Loopback {
 public:
  Loopback(const Clock& clock, const std::function<void()>& wait) : clock_(clock), wait_(wait) {}

  Result<void> make(Nic& nic, const NicPort& port, const verbs::Gid& gid) {
    auto region = nic.register_memory(memory_.bytes(), RemoteAccess::kRead);
    if (!region) return Failure(std::move(region).error());
    region_ = *std::move(region);
    auto cq = nic.make_cq(4 * kUnderWay, user_);
    if (!cq) return Failure(std::move(cq).error());
    cq_ = *std::move(cq);
    const QpSize size{
        .sends = kUnderWay, .receives = kUnderWay, .reads = std::min(nic.limits().reads, kReadsMost)};
    for (auto* qp : {&near_, &far_}) {
      auto made = nic.make_qp(*cq_, size);
      if (!made) return Failure(std::move(made).error());
      *qp = *std::move(made);
    }
    for (std::uint32_t i = 0; i < kUnderWay; ++i) {
      if (!far_->post_receive(kReceive | i, place(kUnderWay + i, kSlotBytesOfCheck))) return refused();
    }
    for (const auto& [qp, peer] : {std::pair(near_.get(), far_.get()), std::pair(far_.get(), near_.get())}) {
      auto done = qp->connect({.own = gid,
                               .peer = gid,
                               .peer_qpn = peer->qpn(),
                               .mtu = port.mtu,
                               .reads = size.reads,
                               .timeout = kTimeout});
      if (!done) return done;
    }
    return {};
  }

  // Measures sends per second with a full queue of work requests.
  Result<double> sends(std::uint32_t bytes, Duration time) {
    return rate(kUnderWay, time, [&](std::uint32_t i) { return near_->post_send(i, place(i, bytes), true); });
  }
  Result<double> reads(std::uint32_t bytes, Duration time, std::uint32_t under_way = kUnderWay) {
    const auto from = reinterpret_cast<std::uintptr_t>(memory_.bytes().data() + kUnderWay * kLongBytes);
    return rate(under_way, time, [&](std::uint32_t i) {
      return near_->post_read(i, place(i, bytes), from + i * kLongBytes, region_->rkey());
    });
  }

 private:
  static constexpr std::uint64_t kReceive = 1ULL << 32;

  Failure refused() const { return fail(ENOBUFS, "the device accepts no work requests"); }
  RegisteredSpan place(std::uint32_t slot, std::uint32_t bytes) {
    return {memory_.bytes().data() + std::size_t{slot} * kLongBytes, bytes, region_->lkey()};
  }

  template <typename Post>
  Result<double> rate(std::uint32_t under_way, Duration time, Post post) {
    const Instant begin = clock_.now();
    std::uint64_t posted = 0;
    std::uint64_t done = 0;
    for (; posted < under_way; ++posted) {
      if (!post(static_cast<std::uint32_t>(posted))) return refused();
    }
    Instant last = begin;
    Instant now = begin;
    std::array<NicCompletion, 32> found;
    while (done != posted) {
      const auto count = cq_->poll(found);
      if (!count) return fail(ENODEV, "the device is gone");
      now = clock_.now();
      if (*count == 0) {
        if (now - last > kPatience)
          return fail(ErrorKind::kUnavailable, "the device completes no work requests");
        if (wait_) wait_();
        continue;
      }
      last = now;
      for (std::size_t i = 0; i < *count; ++i) {
        const NicCompletion& one = found[i];
        if (!one.trouble.empty()) return fail(EIO, fmt::format("a work request failed: {}", one.trouble));
        const auto slot = static_cast<std::uint32_t>(one.id);
        if ((one.id & kReceive) != 0) {
          if (!far_->post_receive(one.id, place(kUnderWay + slot, kSlotBytesOfCheck))) return refused();
          continue;
        }
        ++done;
        if (now - begin >= time) continue;
        if (!post(slot)) return refused();
        ++posted;
      }
    }
    const double seconds = std::chrono::duration<double>(now - begin).count();
    return seconds > 0 ? static_cast<double>(done) / seconds : 0;
  }

  const Clock& clock_;
  const std::function<void()>& wait_;
  NoCqUser user_;
  Mapping memory_{std::size_t{2} * kUnderWay * kLongBytes};
  std::unique_ptr<NicMemoryRegion> region_;
  std::unique_ptr<NicCompletionQueue> cq_;
  std::unique_ptr<NicQueuePair> near_;
  std::unique_ptr<NicQueuePair> far_;
};

Result<void> time_registration(Nic& nic, const Clock& clock, HcaCheck& found) {
  const Mapping memory(std::size_t{found.memory_mib} << 20);
  if (!memory.is_there()) return fail_errno(errno, fmt::format("mapping {} MiB of memory", found.memory_mib));
  const auto per_gib_us = [&](Duration took) { return microseconds_of(took * kMibOfGib / found.memory_mib); };
  for (std::uint64_t* const took_us : {&found.register_untouched_us, &found.register_us}) {
    const Instant begin = clock.now();
    auto region = nic.register_memory(memory.bytes(), RemoteAccess::kNone);
    if (!region) return Failure(std::move(region).error());
    *took_us = per_gib_us(clock.now() - begin);
    const Instant end = clock.now();
    region->reset();
    found.deregister_us = per_gib_us(clock.now() - end);
  }
  return {};
}

std::uint64_t whole(double value) {
  return static_cast<std::uint64_t>(value);
}

}  // namespace

Result<HcaCheck> check_nic(const std::shared_ptr<Nic>& nic, const CheckOptions& options, const Clock& clock,
                           const std::function<void()>& wait) {
  const NicLimits limits = nic->limits();
  const auto port = nic->port();
  if (!port) return Failure(port.error());
  if (!port->active) return fail(ENETDOWN, fmt::format("port 1 of RDMA device {} is down", nic->name()));
  if (port->gids.empty())
    return fail(EADDRNOTAVAIL, fmt::format("RDMA device {} has no GID of RoCE v2", nic->name()));
  HcaCheck found{.device = nic->name(),
                 .mtu = port->mtu,
                 .gid = port->gids.front().to_string(),
                 .max_qps = limits.qps,
                 .max_work_requests = limits.work_requests,
                 .max_sges = limits.sges,
                 .max_cqes = limits.cqes,
                 .max_regions = limits.regions,
                 .max_region_bytes = limits.region_bytes,
                 .max_reads = limits.reads,
                 .memory_mib = options.memory_mib};
  for (const verbs::Gid& gid : port->gids) found.gids.push_back(gid.to_string());
  if (auto timed = time_registration(*nic, clock, found); !timed) return Failure(std::move(timed).error());

  Loopback loop(clock, wait);
  if (auto made = loop.make(*nic, *port, port->gids.front()); !made) return Failure(std::move(made).error());
  const auto sends = loop.sends(kShortBytes, options.time);
  const auto long_sends = sends ? loop.sends(kSlotBytesOfCheck, options.time) : sends;
  const auto alone = long_sends ? loop.reads(kShortBytes, options.time, 1) : long_sends;
  const auto reads = alone ? loop.reads(kSlotBytesOfCheck, options.time) : alone;
  auto long_reads = reads ? loop.reads(kLongBytes, options.time) : reads;
  if (!long_reads) return Failure(std::move(long_reads).error().in("RDMA device " + nic->name()));
  found.sends = whole(*sends);
  found.send_bytes = whole(*long_sends * kSlotBytesOfCheck);
  found.read_bytes = whole(*reads * kSlotBytesOfCheck);
  found.long_read_bytes = whole(*long_reads * kLongBytes);
  if (*alone > 0) found.read_ns = whole(1e9 / *alone);
  return found;
}

}  // namespace pvrdma::transport::hca
