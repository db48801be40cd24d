// What several shards cost and gain: pairs of adapters on one shard, across two shards, and two pairs that
// sit together on a shard each. Writes and reads, from doorbell to completion, by the wall clock.
//
// Each shard has a processor of its own, 0 and 1. A hypervisor may put these close together or far apart, and
// may move them at any time; messages across shards follow. So each figure has the counter `line_ns`,
// measured just before: how long a cache line takes from one of the processors to the other. Only figures of
// the same label, near or far, may be compared.
//
// Promises (docs/performance.md): two pairs on two shards 1.8 times one pair; a pair across two shards 0.9 of
// one shard with 64 KiB, and at most 0.5 us more for 8 bytes near, 0.9 us far.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sched.h>
#include <thread>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"

#include "base/check.h"
#include "base/cores.h"
#include "base/log.h"
#include "fabric/fabric.h"
#include "fabric/port.h"
#include "shard/loop.h"
#include "support/in_process_bus.h"
#include "support/machines.h"
#include "support/must.h"
#include "support/running_adapter.h"
#include "transfer.h"
#include "transport/siblings/siblings.h"

namespace pvrdma {
namespace {

using test::must;

constexpr std::uint32_t kBufferBytes = 1u << 20;
constexpr std::uint32_t kOtherCore = 1;  // main() binds its own thread to 0
constexpr double kFarNs = 100;           // a line that takes longer comes from another last-level cache

// A thread on the other processor that calls `step` until it is destroyed.
template <typename Step>
class OtherCore {
 public:
  explicit OtherCore(Step step)
      : thread_([this, step = std::move(step)]() mutable {
          while (!go_.load(std::memory_order_acquire)) std::this_thread::yield();
          while (!stop_.load(std::memory_order_relaxed)) step();
        }) {
    must(bind_to_core(thread_, kOtherCore));
    go_.store(true, std::memory_order_release);
  }
  ~OtherCore() {
    stop_.store(true, std::memory_order_relaxed);
    thread_.join();
  }
  OtherCore(const OtherCore&) = delete;
  OtherCore& operator=(const OtherCore&) = delete;

 private:
  std::atomic<bool> go_ = false;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// How long a cache line takes to the other processor, in nanoseconds.
double line_ns() {
  constexpr std::uint32_t kRounds = 50'000;
  struct alignas(128) Line {
    std::atomic<std::uint32_t> value{0};
  };
  Line there;
  Line back;
  std::uint32_t seen = 0;
  const OtherCore echo([&] {
    const std::uint32_t value = there.value.load(std::memory_order_acquire);
    if (value == seen) return;
    seen = value;
    back.value.store(value, std::memory_order_release);
  });
  there.value.store(1, std::memory_order_release);
  while (back.value.load(std::memory_order_acquire) != 1) {
  }
  const auto start = std::chrono::steady_clock::now();
  for (std::uint32_t round = 2; round < kRounds + 2; ++round) {
    there.value.store(round, std::memory_order_release);
    while (back.value.load(std::memory_order_acquire) != round) {
    }
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  return took.count() / (2.0 * kRounds);
}

// Measures a line, and writes it beside the figure that follows.
void note_line(benchmark::State& state) {
  const double ns = line_ns();
  state.counters["line_ns"] = ns;
  state.SetLabel(ns > kFarNs ? "far" : "near");
}

// A shard without a thread: whoever calls turn() is its thread.
class Shard {
 public:
  Shard(fabric::HostGids& gids, const std::shared_ptr<transport::siblings::HostRings>& rings,
        std::uint16_t number)
      : fabric_(clock_, gids, transport::ShardNumber(number)) {
    if (rings->shards() > 1) {
      siblings_ = must(transport::Siblings::create(rings, transport::ShardNumber(number), *loop_, fabric_));
      fabric_.use(*siblings_);
    } else {
      fabric_.use(local_);
    }
  }

  void turn() { loop_->turn(Duration{0}); }
  fabric::Switch& segment() { return fabric_.segment(transport::SegmentId{}); }
  shard::Loop& loop() { return *loop_; }
  const Clock& clock() const { return clock_; }

 private:
  SteadyClock clock_;
  std::unique_ptr<shard::Loop> loop_ = must(shard::Loop::create({}, clock_));
  fabric::Fabric fabric_;
  transport::Local local_;  // with one shard
  std::unique_ptr<transport::Siblings> siblings_;
};

// An adapter on a shard, its driver, and one end of a connection.
class End {
 public:
  End(Shard& shard, std::uint32_t index)
      : port_(config(index).name, fabric::PortIdentity{.mac = config(index).mac}, shard.segment()),
        adapter_(must(device::Adapter::create(config(index), port_, shard.clock()))),
        attached_(port_, *adapter_),
        running_(shard.loop(), *adapter_),
        driver_(must(driver::Device::open(std::make_unique<test::InProcessBus>(*adapter_), {}))) {
    must(driver_->bind_gid(0, test::gid_of(index)));
    endpoint_ = std::make_unique<test::RcEndpoint>(
        *driver_, test::gid_of(index), bench::deep_endpoint(kBufferBytes, driver::Placement::kScattered));
    std::memset(endpoint_->bytes(), 1, kBufferBytes);
  }

  test::RcEndpoint& endpoint() { return *endpoint_; }

 private:
  static device::AdapterConfig config(std::uint32_t index) { return test::adapter_config(index, {}); }
  struct Attached {
    Attached(fabric::Port& to, device::Adapter& adapter) : port(to) { port.attach(adapter.engine()); }
    ~Attached() { port.detach(); }
    Attached(const Attached&) = delete;
    Attached& operator=(const Attached&) = delete;
    fabric::Port& port;
  };

  fabric::Port port_;
  std::unique_ptr<device::Adapter> adapter_;
  Attached attached_;
  test::RunningAdapter running_;
  std::unique_ptr<driver::Device> driver_;
  std::unique_ptr<test::RcEndpoint> endpoint_;
};

// A host with shards, and connected pairs. `places`: for each pair, the shards of requester and responder.
class Host {
 public:
  using Places = std::vector<std::array<std::uint16_t, 2>>;

  Host(std::uint16_t shards, const Places& places)
      : gids_(shards), rings_(must(transport::siblings::HostRings::create(shards))) {
    for (std::uint16_t i = 0; i < shards; ++i) shards_.push_back(std::make_unique<Shard>(gids_, rings_, i));
    for (const auto& place : places) {
      for (const std::uint16_t shard : place)
        ends_.push_back(std::make_unique<End>(*shards_[shard], static_cast<std::uint32_t>(ends_.size())));
      must(test::connect(requester(ends_.size() / 2 - 1), responder(ends_.size() / 2 - 1)));
    }
  }

  Shard& shard(std::size_t number) { return *shards_[number]; }
  test::RcEndpoint& requester(std::size_t pair) { return ends_[2 * pair]->endpoint(); }
  test::RcEndpoint& responder(std::size_t pair) { return ends_[2 * pair + 1]->endpoint(); }

 private:
  fabric::HostGids gids_;
  std::shared_ptr<transport::siblings::HostRings> rings_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<std::unique_ptr<End>> ends_;
};

bench::Transfer transfer(Host& host, std::size_t pair, abi::Opcode opcode, const benchmark::State& state) {
  return {host.requester(pair), host.responder(pair), opcode, static_cast<std::uint32_t>(state.range(0)),
          static_cast<std::uint32_t>(state.range(1))};
}

void report(benchmark::State& state, std::uint64_t operations) {
  const auto count = static_cast<double>(operations);
  state.counters["us_per_op"] =
      benchmark::Counter(count * 1e-6, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.SetItemsProcessed(static_cast<std::int64_t>(operations));
  state.SetBytesProcessed(static_cast<std::int64_t>(operations) * state.range(0));
}

// Measures the first pair, whose requester is on the first shard.
void measure(benchmark::State& state, Host& host, abi::Opcode opcode) {
  bench::Transfer batch = transfer(host, 0, opcode, state);
  const auto turn = [&] { host.shard(0).turn(); };
  batch.run(turn);
  for (auto _ : state) batch.run(turn);
  report(state, static_cast<std::uint64_t>(state.iterations()) * batch.count());
}

// A pair on one shard; the other processor is idle.
void OneShard(benchmark::State& state, abi::Opcode opcode) {
  note_line(state);
  Host host(1, {{0, 0}});
  measure(state, host, opcode);
}

// A pair whose adapters sit on two shards. Both shards are awake.
void Across(benchmark::State& state, abi::Opcode opcode) {
  note_line(state);
  Host host(2, {{0, 1}});
  const OtherCore responder([&] { host.shard(1).turn(); });
  measure(state, host, opcode);
}

// Two pairs on two shards, each pair together. The figures are those of both pairs.
void TwoPairs(benchmark::State& state, abi::Opcode opcode) {
  note_line(state);
  Host host(2, {{0, 0}, {1, 1}});
  bench::Transfer batch = transfer(host, 0, opcode, state);
  bench::Transfer other = transfer(host, 1, opcode, state);
  std::atomic<std::uint64_t> by_other = 0;
  const OtherCore second([&] {
    other.run([&] { host.shard(1).turn(); });
    by_other.fetch_add(other.count(), std::memory_order_relaxed);
  });
  const auto turn = [&] { host.shard(0).turn(); };
  batch.run(turn);
  const std::uint64_t before = by_other.load(std::memory_order_relaxed);
  for (auto _ : state) batch.run(turn);
  report(state, static_cast<std::uint64_t>(state.iterations()) * batch.count() +
                    by_other.load(std::memory_order_relaxed) - before);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"bytes", "per_doorbell"})->UseRealTime();
  bench->Args({8, 1})->Args({8, 64})->Args({1024, 16})->Args({4096, 16})->Args({65536, 1})->Args({65536, 8});
}
BENCHMARK_CAPTURE(OneShard, write, abi::Opcode::kRdmaWrite)->Apply(sizes);
BENCHMARK_CAPTURE(Across, write, abi::Opcode::kRdmaWrite)->Apply(sizes);
BENCHMARK_CAPTURE(TwoPairs, write, abi::Opcode::kRdmaWrite)->Apply(sizes);
BENCHMARK_CAPTURE(OneShard, read, abi::Opcode::kRdmaRead)->Apply(sizes);
BENCHMARK_CAPTURE(Across, read, abi::Opcode::kRdmaRead)->Apply(sizes);
BENCHMARK_CAPTURE(TwoPairs, read, abi::Opcode::kRdmaRead)->Apply(sizes);

}  // namespace
}  // namespace pvrdma

int main(int argc, char** argv) {
  pvrdma::log::set_level(pvrdma::log::Level::kError);
  cpu_set_t first;
  CPU_ZERO(&first);
  CPU_SET(0, &first);
  if (std::thread::hardware_concurrency() < 2 || ::sched_setaffinity(0, sizeof first, &first) != 0) {
    std::fputs("siblings_bench: it needs the processors 0 and 1\n", stderr);
    return 1;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
