// The data path in one process: driver, doorbell, engine, completion, with no socket between.
//
// Promises (docs/performance.md): a 64 KiB write at 70 % or more of the same run's 64 KiB memcpy (counter
// `of_memcpy` of WriteAgainstMemcpy), an 8-byte write below 0.5 us of CPU (counter `cpu_us_per_op` of
// Write/8/…).
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <time.h>
#include <vector>

#include "benchmark/benchmark.h"

#include "base/check.h"
#include "base/log.h"
#include "support/must.h"
#include "support/testbench.h"

namespace pvrdma {
namespace {

namespace wr = driver::wr;

constexpr std::uint32_t kBufferBytes = 4u << 20;
constexpr std::uint32_t kQueueDepth = 256;

// CPU time, which other programs on the machine disturb less than the clock's.
double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Two connected adapters, everything warm.
class Pair {
 public:
  explicit Pair(driver::Placement placement = driver::Placement::kScattered)
      : bench_(host()),
        a_(bench_.device(0), test::gid_of(0), options(placement)),
        b_(bench_.device(1), test::gid_of(1), options(placement)) {
    test::must(test::connect(a_, b_));
    std::memset(a_.bytes(), 1, kBufferBytes);
    std::memset(b_.bytes(), 2, kBufferBytes);
  }

  // `count` requests of one opcode, the last one signalled, with one doorbell; until that one has completed.
  void transfer(abi::Opcode opcode, std::uint32_t bytes, std::uint32_t count) {
    if (opcode == abi::Opcode::kSend) post_receives(bytes, count);
    const driver::Sge sge = a_.sge(0, bytes);
    driver::SendRequest request = opcode == abi::Opcode::kSend
                                      ? wr::send(1, std::span(&sge, 1), 0)
                                      : wr::rdma(opcode, 1, std::span(&sge, 1), b_.remote(), 0);
    requests_.assign(count, request);
    requests_.back().wqe.send_flags |= wr::kSignaled;
    PVRDMA_CHECK(a_.qp->post_send(requests_).ok(), "the send queue has room");
    take(*a_.send_cq, 1);
    if (opcode == abi::Opcode::kSend) take(*b_.recv_cq, count);
  }

  // Another connection between the two, with its QPs in RTS.
  void add_idle(std::vector<std::unique_ptr<test::RcEndpoint>>& idle) {
    const test::EndpointOptions small{
        .cq_entries = 16, .max_send_wr = 16, .max_recv_wr = 16, .buffer_bytes = 4096};
    auto from = std::make_unique<test::RcEndpoint>(bench_.device(0), test::gid_of(0), small);
    auto to = std::make_unique<test::RcEndpoint>(bench_.device(1), test::gid_of(1), small);
    test::must(test::connect(*from, *to));
    idle.push_back(std::move(from));
    idle.push_back(std::move(to));
  }

  const test::RcEndpoint& a() const { return a_; }
  const test::RcEndpoint& b() const { return b_; }

 private:
  static test::TestbenchOptions host() {
    test::TestbenchOptions out;
    out.driver.ram.size_bytes = 512u << 20;  // sparse; what 1000 more connections need
    return out;
  }
  static test::EndpointOptions options(driver::Placement placement) {
    test::EndpointOptions out;
    out.placement = placement;
    out.cq_entries = 2 * kQueueDepth;
    out.max_send_wr = out.max_recv_wr = kQueueDepth;
    out.buffer_bytes = kBufferBytes;
    return out;
  }
  void post_receives(std::uint32_t bytes, std::uint32_t count) {
    const driver::Sge sge = b_.sge(0, bytes);
    receives_.assign(count, driver::ReceiveRequest{1, std::span(&sge, 1)});
    PVRDMA_CHECK(b_.qp->post_recv(receives_).ok(), "the receive queue has room");
  }
  void take(driver::CompletionQueue& cq, std::size_t count) {
    while (count != 0) {
      const std::size_t taken = cq.poll(completions_, driver::CompletionQueue::WhenEmpty::kReturn);
      for (std::size_t i = 0; i < taken; ++i) PVRDMA_CHECK(completions_[i].ok(), "nothing fails in a bench");
      if (taken == 0) bench_.run();  // a turn's budget was used up
      count -= taken;
    }
  }

  test::Testbench bench_;
  test::RcEndpoint a_;
  test::RcEndpoint b_;
  std::vector<driver::SendRequest> requests_;
  std::vector<driver::ReceiveRequest> receives_;
  std::array<driver::WorkCompletion, kQueueDepth> completions_;
};

void transfer(benchmark::State& state, abi::Opcode opcode) {
  Pair pair;
  const auto bytes = static_cast<std::uint32_t>(state.range(0));
  const auto per_doorbell = static_cast<std::uint32_t>(state.range(1));
  pair.transfer(opcode, bytes, per_doorbell);
  const double before = cpu_seconds();
  for (auto _ : state) pair.transfer(opcode, bytes, per_doorbell);
  const double operations = static_cast<double>(state.iterations()) * per_doorbell;
  state.counters["cpu_us_per_op"] = (cpu_seconds() - before) * 1e6 / operations;
  state.SetItemsProcessed(state.iterations() * per_doorbell);
  state.SetBytesProcessed(state.iterations() * per_doorbell * bytes);
}

void Write(benchmark::State& state) {
  transfer(state, abi::Opcode::kRdmaWrite);
}
void Read(benchmark::State& state) {
  transfer(state, abi::Opcode::kRdmaRead);
}
void Send(benchmark::State& state) {
  transfer(state, abi::Opcode::kSend);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"bytes", "per_doorbell"});
  for (const int bytes : {8, 4096, 65536, 1 << 20}) {
    for (const int per_doorbell : {1, 64}) bench->Args({bytes, per_doorbell});
  }
}
BENCHMARK(Write)->Apply(sizes);
BENCHMARK(Read)->Apply(sizes);
BENCHMARK(Send)->Apply(sizes);

// What connections that do nothing cost one that works: a message finds its QP by index.
void WriteBesideIdleQps(benchmark::State& state) {
  Pair pair;
  std::vector<std::unique_ptr<test::RcEndpoint>> idle;
  for (std::int64_t i = 0; i < state.range(0); ++i) pair.add_idle(idle);
  constexpr std::uint32_t kEach = 64;
  pair.transfer(abi::Opcode::kRdmaWrite, 8, kEach);
  const double before = cpu_seconds();
  for (auto _ : state) pair.transfer(abi::Opcode::kRdmaWrite, 8, kEach);
  state.counters["cpu_us_per_op"] =
      (cpu_seconds() - before) * 1e6 / (static_cast<double>(state.iterations()) * kEach);
}
BENCHMARK(WriteBesideIdleQps)->ArgName("idle")->Arg(0)->Arg(1000);

// The same bytes between the same two guests' memories, by turns: what one copy costs here and now. With
// scattered pages (the worst that a process can have) the memcpy still sees one range, through the driver's
// own mapping.
void WriteAgainstMemcpy(benchmark::State& state) {
  Pair pair(state.range(1) == 0 ? driver::Placement::kContiguous : driver::Placement::kScattered);
  const auto bytes = static_cast<std::uint32_t>(state.range(0));
  constexpr std::uint32_t kEach = 64;
  double copying = 0;
  double writing = 0;
  for (auto _ : state) {
    const double start = cpu_seconds();
    for (std::uint32_t i = 0; i < kEach; ++i) {
      std::memcpy(pair.b().bytes(), pair.a().bytes(), bytes);
      benchmark::ClobberMemory();
    }
    const double between = cpu_seconds();
    pair.transfer(abi::Opcode::kRdmaWrite, bytes, kEach);
    copying += between - start;
    writing += cpu_seconds() - between;
  }
  const double total = static_cast<double>(state.iterations()) * kEach * bytes;
  state.counters["of_memcpy"] = copying / writing;
  state.counters["memcpy_bytes_per_second"] = total / copying;
  state.counters["write_bytes_per_second"] = total / writing;
}
BENCHMARK(WriteAgainstMemcpy)
    ->ArgNames({"bytes", "scattered"})
    ->ArgsProduct({{4096, 65536, 1 << 20}, {0, 1}});

}  // namespace
}  // namespace pvrdma

int main(int argc, char** argv) {
  pvrdma::log::set_level(pvrdma::log::Level::kError);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
