#include "neighbour.h"

#include <algorithm>
#include <chrono>
#include <fmt/core.h>
#include <stdexcept>
#include <utility>

#include "driver/vfio_user_bus.h"
#include "support/must.h"

namespace pvrdma::bench {
namespace {

using test::must;

constexpr Duration kPatience = std::chrono::minutes(2);  // the bench kills the daemon long before
constexpr Duration kPause = std::chrono::microseconds(100);
constexpr std::size_t kMapEvery = 500;  // rounds
constexpr std::uint32_t kNative = 199;  // the index of the GID of a machine outside
constexpr std::uint32_t kNativeQpn = 17;
constexpr std::uint64_t kMapAt = 1ULL << 41;

std::unique_ptr<driver::Device> open_adapter(const std::string& socket, std::uint32_t index) {
  auto device = must(driver::Device::open(must(driver::VfioUserBus::connect(socket, kPatience))));
  must(device->bind_gid(0, test::gid_of(index)));
  return device;
}

}  // namespace

Times times_of(std::vector<std::int64_t>& samples_ns) {
  if (samples_ns.empty()) return {};
  std::ranges::sort(samples_ns);
  const auto at = [&](double share) {
    const auto index = static_cast<std::size_t>(share * static_cast<double>(samples_ns.size() - 1));
    return static_cast<double>(samples_ns[index]) / 1000;
  };
  return {.p50_us = at(0.5), .p999_us = at(0.999), .worst_us = at(1)};
}

Neighbour::Neighbour(const std::string& socket_b, const std::string& socket_c, Natives natives)
    : natives_(natives),
      b_(open_adapter(socket_b, 200)),
      c_(open_adapter(socket_c, 201)),
      from_(std::make_unique<test::RcEndpoint>(*b_, test::gid_of(200))),
      to_(std::make_unique<test::RcEndpoint>(*c_, test::gid_of(201))),
      other_(must(driver::GuestRam::create({.size_bytes = 2 << 20, .base = driver::GuestPhys(kMapAt)}))) {
  must(test::connect(*from_, *to_, {.timeout = 18, .first_psn = 0}));
}

Neighbour::~Neighbour() {
  ask_to_stop();
  if (thread_.joinable()) thread_.join();
}

void Neighbour::start() {
  samples_.reads_ns.reserve(1 << 20);
  samples_.writes_ns.reserve(1 << 20);
  thread_ = std::thread([this] { run(); });
}

Duration Neighbour::blocked_for() const {
  const std::int64_t since = since_ns_.load(std::memory_order_relaxed);
  return since == 0 ? Duration{0} : Instant::now().since_start - Duration(since);
}

Samples Neighbour::take() {
  ask_to_stop();
  if (thread_.joinable()) thread_.join();
  return std::move(samples_);
}

void Neighbour::run() {
  try {
    for (std::size_t round = 1; !stopping_; ++round) {
      if (forgetting_.exchange(false)) forget_now();
      timed([this] { read_once(); }, &samples_.reads_ns);
      timed([this] { write_once(); }, &samples_.writes_ns);
      if (round % kMapEvery == 0) {
        timed([this] { map_once(); }, nullptr);
        if (natives_ == Natives::kConnects) timed([this] { connect_native_once(); }, nullptr);
      }
      std::this_thread::sleep_for(kPause);
    }
  } catch (const std::runtime_error& error) {
    samples_.broken = error.what();
  }
  stopped_ = true;
}

void Neighbour::forget_now() {
  for (auto* samples : {&samples_.reads_ns, &samples_.writes_ns}) {
    for (const std::int64_t took : *samples) {
      samples_.forgotten_worst_ns = std::max(samples_.forgotten_worst_ns, took);
    }
    samples->clear();
  }
}

// The time of a failed operation counts too.
template <typename Operation>
void Neighbour::timed(Operation&& operation, std::vector<std::int64_t>* samples_ns) {
  const Duration begin = Instant::now().since_start;
  const auto keep = [&] {
    since_ns_.store(0, std::memory_order_relaxed);
    if (samples_ns != nullptr) samples_ns->push_back((Instant::now().since_start - begin).count());
  };
  since_ns_.store(begin.count(), std::memory_order_relaxed);
  try {
    operation();
  } catch (...) {
    keep();
    throw;
  }
  keep();
}

void Neighbour::read_once() {
  must(b_->read_register(abi::Register::kVersion));
}

void Neighbour::write_once() {
  const driver::Sge sge = from_->sge(0, 8);
  if (!from_->qp->post_send(driver::wr::write(1, {&sge, 1}, to_->remote())).ok()) {
    throw std::runtime_error("a write could not be posted");
  }
  driver::WorkCompletion done;
  while (from_->send_cq->poll({&done, 1}, driver::CompletionQueue::WhenEmpty::kReturn) == 0) {
    if (stopping_) throw std::runtime_error("a write was never completed");
    if (blocked_for() > std::chrono::milliseconds(1)) std::this_thread::sleep_for(kPause);
  }
  if (!done.ok()) {
    throw std::runtime_error(fmt::format("a write ended with status {}", static_cast<int>(done.status)));
  }
}

void Neighbour::map_once() {
  auto mapped = b_->bus().dma_map(kMapAt, other_->size_bytes(), other_->fd(), 0);
  if (mapped) {
    must(b_->bus().dma_unmap(kMapAt, other_->size_bytes()));
  } else if (samples_.map_refused.empty()) {
    samples_.map_refused = mapped.error().message;
  }
}

void Neighbour::connect_native_once() {
  test::RcEndpoint end(*b_, test::gid_of(200), test::small_endpoint(b_->kernel()));
  const auto connected = end.connect_to(test::gid_of(kNative), kNativeQpn);
  if (!connected && samples_.native_refused.empty()) samples_.native_refused = connected.error().message;
}

}  // namespace pvrdma::bench
