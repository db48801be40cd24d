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
constexpr double kGib = 1u << 30;

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

// Two QPs of one device that are connected to each other, with one CQ and one region.
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
      auto done = qp->connect(
          {.own = gid, .peer = gid, .peer_qpn = peer->qpn(), .mtu = port.mtu, .reads = size.reads});
      if (!done) return done;
    }
    return {};
  }

  // How many a second, with so many under way.
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

  Failure refused() const { return fail(ENOBUFS, "the device takes no work requests"); }
  Place place(std::uint32_t slot, std::uint32_t bytes) {
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
    std::array<WorkCompletion, 32> found;
    while (done != posted) {
      const auto count = cq_->poll(found);
      if (!count) return fail(ENODEV, "the device is gone");
      now = clock_.now();
      if (*count == 0) {
        if (now - last > kPatience) return fail(ETIMEDOUT, "the device completes nothing");
        if (wait_) wait_();
        continue;
      }
      last = now;
      for (std::size_t i = 0; i < *count; ++i) {
        const WorkCompletion& one = found[i];
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
  std::unique_ptr<MemoryRegion> region_;
  std::unique_ptr<CompletionQueue> cq_;
  std::unique_ptr<QueuePair> near_;
  std::unique_ptr<QueuePair> far_;
};

Result<void> time_registration(Nic& nic, const CheckOptions& options, const Clock& clock,
                               CheckReport& report) {
  const Mapping memory(options.memory_bytes);
  if (!memory.is_there())
    return fail_errno(errno, fmt::format("mapping {} MiB of memory", options.memory_bytes >> 20));
  const auto per_gib = [&](Duration took) {
    return std::chrono::duration_cast<Duration>(took * (kGib / static_cast<double>(options.memory_bytes)));
  };
  for (Duration* const took : {&report.register_untouched_per_gib, &report.register_touched_per_gib}) {
    const Instant begin = clock.now();
    auto region = nic.register_memory(memory.bytes(), RemoteAccess::kNone);
    if (!region) return Failure(std::move(region).error());
    *took = per_gib(clock.now() - begin);
    const Instant end = clock.now();
    region->reset();
    report.deregister_per_gib = per_gib(clock.now() - end);
  }
  return {};
}

}  // namespace

Result<CheckReport> check_nic(const std::shared_ptr<Nic>& nic, const CheckOptions& options,
                              const Clock& clock, const std::function<void()>& wait) {
  CheckReport report{.device = nic->name(), .limits = nic->limits()};
  auto port = nic->port();
  if (!port) return Failure(std::move(port).error());
  report.port = *std::move(port);
  if (!report.port.active)
    return fail(ENETDOWN, fmt::format("port 1 of RDMA device {} is down", nic->name()));
  if (report.port.gids.empty())
    return fail(EADDRNOTAVAIL, fmt::format("RDMA device {} has no GID of RoCE v2", nic->name()));
  report.gid = report.port.gids.front();
  if (auto timed = time_registration(*nic, options, clock, report); !timed)
    return Failure(std::move(timed).error());

  Loopback loop(clock, wait);
  if (auto made = loop.make(*nic, report.port, report.gid); !made) return Failure(std::move(made).error());
  const auto sends = loop.sends(kShortBytes, options.time);
  const auto long_sends = sends ? loop.sends(kSlotBytesOfCheck, options.time) : sends;
  const auto alone = long_sends ? loop.reads(kShortBytes, options.time, 1) : long_sends;
  const auto reads = alone ? loop.reads(kSlotBytesOfCheck, options.time) : alone;
  const auto long_reads = reads ? loop.reads(kLongBytes, options.time) : reads;
  if (!long_reads)
    return fail(long_reads.error().code,
                fmt::format("RDMA device {}: {}", nic->name(), long_reads.error().message));
  report.sends_per_second = *sends;
  report.send_bytes_per_second = *long_sends * kSlotBytesOfCheck;
  report.read_takes = *alone > 0
                          ? std::chrono::duration_cast<Duration>(std::chrono::duration<double>(1 / *alone))
                          : Duration{0};
  report.read_bytes_per_second = *reads * kSlotBytesOfCheck;
  report.long_read_bytes_per_second = *long_reads * kLongBytes;
  return report;
}

}  // namespace pvrdma::transport::hca
