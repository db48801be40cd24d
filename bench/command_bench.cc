// What single commands of a guest, and questions of the control plane, cost the shard at the limits of an
// adapter. All other guests wait meanwhile.
//
// Promise (docs/performance.md): each takes a few milliseconds at most, however many objects there are.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <vector>

#include "benchmark/benchmark.h"

#include "base/check.h"
#include "base/log.h"
#include "shard/loop.h"
#include "support/guest_memory.h"
#include "verbs/engine.h"

namespace pvrdma {
namespace {

constexpr std::uint32_t kQps = 30'000;
constexpr std::uint32_t kMrs = 200'000;
constexpr verbs::UarIndex kUar = 1;
constexpr verbs::ContextHandle kContext{kUar};

class Silence final : public verbs::EventSink {
 public:
  void completion_event(verbs::CqHandle) override {}
  void async_event(abi::EventType, std::uint32_t) override {}
  void qp_failed(verbs::Qpn, std::string_view) override {}
};

class Nowhere final : public verbs::SwitchPort {
 public:
  Nowhere() : SwitchPort(generation_) {}
  bool send_datagram(const verbs::Datagram&, const guestmem::SpanList&, Instant) override { return true; }
  void flush(Instant) override {}
  bool bind_gid(const verbs::Gid&) override { return true; }
  void unbind_gid(const verbs::Gid&) override {}
  std::uint64_t set_stopped(bool) override { return 0; }

 private:
  void open_path(const verbs::Connection&, verbs::PathSlot&) override {}
  std::atomic<std::uint64_t> generation_ = 1;
};

// One adapter's engine whose guest names the same pages again and again.
class Adapter {
 public:
  explicit Adapter(std::uint64_t ram_bytes = 1u << 20) : memory_(ram_bytes) {}

  void create_context() {
    PVRDMA_CHECK(engine.create_context(kUar), "a context");
    pd_ = *engine.create_pd(kContext);
    cq_ = *engine.create_cq({.context = kContext,
                             .cqe_count = 64,
                             .page_count = cq_pages_.page_count(),
                             .page_directory = cq_pages_.directory});
  }
  void create_qps(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto made = engine.create_qp({.pd = pd_,
                                          .send_cq = cq_,
                                          .recv_cq = cq_,
                                          .type = abi::QpType::kRc,
                                          .max_send_wr = 16,
                                          .max_recv_wr = 16,
                                          .max_send_sge = 1,
                                          .max_recv_sge = 1,
                                          .total_pages = qp_pages_.page_count(),
                                          .send_pages = 1,
                                          .page_directory = qp_pages_.directory});
      PVRDMA_CHECK(made, "a QP");
    }
  }
  void create_mrs(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) PVRDMA_CHECK(create_mr(mr_pages_.directory, 1), "an MR");
  }
  verbs::Outcome<verbs::MrKeys> create_mr(std::uint64_t directory, std::uint32_t page_count) {
    return engine.create_mr({.kind = verbs::MrKind::kUser,
                             .pd = pd_,
                             .start = 0x10'0000,
                             .length = page_count * guestmem::kPageBytes,
                             .access_flags = abi::kAccessLocalWrite,
                             .page_count = page_count,
                             .page_directory = directory});
  }
  // A directory of 1 GiB of scattered pages, each named once.
  std::uint64_t scattered_directory() {
    std::vector<guestmem::GuestPhys> pages = memory_.adjacent_pages(guestmem::kMaxDirectoryPages);
    std::shuffle(pages.begin(), pages.end(), std::mt19937(7));
    return memory_.directory(pages);
  }

 private:
  test::GuestMemory memory_;
  Silence events_;
  Nowhere port_;
  verbs::Account account_{Budgets::none()};

 public:
  verbs::Engine engine{verbs::Limits{}, verbs::Rules{}, memory_.space(), events_, port_, account_};

 private:
  test::GuestMemory::Object cq_pages_ = memory_.object(2);
  test::GuestMemory::Object qp_pages_ = memory_.object(3);
  test::GuestMemory::Object mr_pages_ = memory_.object(1);
  verbs::PdHandle pd_;
  verbs::CqHandle cq_;
};

// A command is one slice: no other guest is served before it has ended. `longest_us` is the longest command.
void CreateMr(benchmark::State& state) {
  const auto pages = static_cast<std::uint32_t>(state.range(0));
  Adapter adapter((1u << 30) + (16u << 20));
  adapter.create_context();
  const std::uint64_t directory = adapter.scattered_directory();
  using Clock = std::chrono::steady_clock;
  const auto us_since = [](Clock::time_point start) {
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  };
  double longest_us = 0;
  for (auto _ : state) {
    const Clock::time_point start = Clock::now();
    const auto made = adapter.create_mr(directory, pages);
    longest_us = std::max(longest_us, us_since(start));
    PVRDMA_CHECK(made, "an MR");
    state.PauseTiming();
    PVRDMA_CHECK(adapter.engine.destroy_mr(made->handle), "gone again");
    state.ResumeTiming();
  }
  state.counters["longest_us"] = longest_us;
}
BENCHMARK(CreateMr)->ArgName("pages")->Arg(1)->Arg(4096)->Arg(262'144)->Unit(benchmark::kMicrosecond);

void fill(Adapter& adapter, const benchmark::State& state) {
  while (adapter.engine.run(Instant{})) {
  }
  adapter.create_context();
  adapter.create_qps(static_cast<std::uint32_t>(state.range(0)));
  adapter.create_mrs(static_cast<std::uint32_t>(state.range(1)));
}

void full_and_half(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"qps", "mrs"})->Args({kQps, 0})->Args({0, kMrs})->Args({kQps, kMrs});
  bench->Unit(benchmark::kMicrosecond)->Iterations(5);
}

void DestroyContext(benchmark::State& state) {
  Adapter adapter;
  for (auto _ : state) {
    state.PauseTiming();
    fill(adapter, state);
    state.ResumeTiming();
    PVRDMA_CHECK(adapter.engine.destroy_context(kContext), "a context there is");
  }
}
BENCHMARK(DestroyContext)->Apply(full_and_half);

void Reset(benchmark::State& state) {
  Adapter adapter;
  for (auto _ : state) {
    state.PauseTiming();
    fill(adapter, state);
    state.ResumeTiming();
    adapter.engine.reset();
  }
}
BENCHMARK(Reset)->Apply(full_and_half);

// One slice of freeing the memory of destroyed objects.
void Bury(benchmark::State& state) {
  Adapter adapter;
  fill(adapter, state);
  PVRDMA_CHECK(adapter.engine.destroy_context(kContext), "a context there is");
  for (auto _ : state) PVRDMA_CHECK(adapter.engine.run(Instant{}), "more to give back");
}
BENCHMARK(Bury)
    ->ArgNames({"qps", "mrs"})
    ->Args({kQps, 0})
    ->Args({0, kMrs})
    ->Iterations(400)
    ->Unit(benchmark::kMicrosecond);

void ListQps(benchmark::State& state) {
  Adapter adapter;
  adapter.create_context();
  adapter.create_qps(kQps);
  for (auto _ : state) benchmark::DoNotOptimize(adapter.engine.list_qps_from(0));
}
BENCHMARK(ListQps)->Unit(benchmark::kMicrosecond);

void PathRestored(benchmark::State& state) {
  Adapter adapter;
  adapter.create_context();
  adapter.create_qps(kQps);
  for (auto _ : state)
    adapter.engine.on_path_restored([](const verbs::Endpoint&, const verbs::Endpoint&) { return false; },
                                    Instant{});
}
BENCHMARK(PathRestored)->Unit(benchmark::kMicrosecond);

// An idle adapter in the loop.
class Idle final : public shard::Pollable {
 public:
  bool run(Instant now) override { return adapter.engine.run(now); }
  void on_time(Instant now) override { adapter.engine.on_time(now); }
  Instant next_deadline() const override { return adapter.engine.next_deadline(); }
  bool polls() const override { return false; }
  std::string what() const override { return "an idle adapter"; }
  Adapter adapter;
};

void IdleTurn(benchmark::State& state) {
  SteadyClock clock;
  const auto loop = shard::Loop::create({}, clock).value();
  std::vector<std::unique_ptr<Idle>> adapters;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    adapters.push_back(std::make_unique<Idle>());
    loop->add(*adapters.back());
  }
  for (auto _ : state) loop->turn(Duration{0});
  for (const auto& each : adapters) loop->remove(*each);
}
BENCHMARK(IdleTurn)->ArgName("adapters")->Arg(0)->Arg(1)->Arg(100)->Unit(benchmark::kNanosecond);

}  // namespace
}  // namespace pvrdma

int main(int argc, char** argv) {
  pvrdma::log::set_level(pvrdma::log::Level::kError);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
