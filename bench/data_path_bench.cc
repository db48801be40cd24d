// The data path in one process: driver, doorbell, engine and completion, without a socket between them.
//
// Promises (docs/performance.md): a 64 KiB write at 70 % or more of the same run's 64 KiB memcpy (counter
// `of_memcpy` of WriteAgainstMemcpy), an 8-byte write below 0.5 us of CPU (counter `cpu_us_per_op` of
// Write/8/…).
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <time.h>
#include <vector>

#include "benchmark/benchmark.h"

#include "base/check.h"
#include "base/log.h"
#include "guestmem/host_span.h"
#include "support/must.h"
#include "support/testbench.h"
#include "transfer.h"

namespace pvrdma {
namespace {

constexpr std::uint32_t kBufferBytes = 4u << 20;

// CPU time: other programs on the machine disturb it less than wall-clock time.
double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Two connected adapters with touched memory.
class Pair {
 public:
  explicit Pair(driver::Placement placement = driver::Placement::kScattered)
      : bench_(host()),
        a_(bench_.device(0), test::gid_of(0), bench::deep_endpoint(kBufferBytes, placement)),
        b_(bench_.device(1), test::gid_of(1), bench::deep_endpoint(kBufferBytes, placement)) {
    test::must(test::connect(a_, b_));
    std::memset(a_.bytes(), 1, kBufferBytes);
    std::memset(b_.bytes(), 2, kBufferBytes);
  }

  // Sets what transfer() posts.
  void prepare(abi::Opcode opcode, std::uint32_t bytes, std::uint32_t count) {
    transfer_.emplace(a_, b_, opcode, bytes, count);
  }

  // Posts the requests with one doorbell, and waits until the last one has completed. An adapter that has
  // used up a turn's budget gets another turn.
  void transfer() {
    transfer_->run([this] { bench_.run(); });
  }

  // Adds a connection between the two adapters, with its QPs in RTS. It uses the first connection's CQs,
  // because an adapter may have more QPs than CQs.
  void add_idle() {
    driver::QueuePair& from = idle_qp(a_);
    driver::QueuePair& to = idle_qp(b_);
    to_rts(from, b_, to.qpn());
    to_rts(to, a_, from.qpn());
  }

  // The addresses of the buffer's pages, in order, in a mapping of the guest's whole memory.
  static std::vector<std::byte*> pages_of(const test::RcEndpoint& end) {
    std::vector<std::byte*> out;
    for (const driver::GuestPhys page : end.buffer->pages())
      out.push_back(end.device.ram().at(page, abi::kPageBytes));
    return out;
  }

  // Starts the logs of written pages of both guests.
  void start_logs() {
    for (std::uint32_t i = 0; i < 2; ++i) test::must(bench_.adapter(i).memory().start_log());
  }
  void stop_logs() {
    for (std::uint32_t i = 0; i < 2; ++i) bench_.adapter(i).memory().stop_log();
  }

  const test::RcEndpoint& a() const { return a_; }
  const test::RcEndpoint& b() const { return b_; }

 private:
  static test::TestbenchOptions host() {
    test::TestbenchOptions out;
    out.driver.ram.size_bytes = 512u << 20;  // sparse; enough for 10,000 more connections
    return out;
  }
  driver::QueuePair& idle_qp(const test::RcEndpoint& like) {
    idle_.push_back(
        test::must(driver::QueuePair::create(like.pd, {.send_cq = like.send_cq.get(),
                                                       .recv_cq = like.recv_cq.get(),
                                                       .max_send_wr = 16,
                                                       .max_recv_wr = 16,
                                                       .placement = driver::Placement::kContiguous})));
    return *idle_.back();
  }
  static void to_rts(driver::QueuePair& qp, const test::RcEndpoint& peer, std::uint32_t peer_qpn) {
    test::must(qp.to_init({.access = test::kFullAccess}));
    test::must(qp.to_rtr({.dest_qpn = peer_qpn, .route = {.dgid = peer.gid}}));
    test::must(qp.to_rts(driver::RtsAttributes{}));
  }

  test::Testbench bench_;
  test::RcEndpoint a_;
  test::RcEndpoint b_;
  std::vector<std::unique_ptr<driver::QueuePair>> idle_;
  std::optional<bench::Transfer> transfer_;
};

void transfer(benchmark::State& state, abi::Opcode opcode) {
  Pair pair;
  const auto bytes = static_cast<std::uint32_t>(state.range(0));
  const auto per_doorbell = static_cast<std::uint32_t>(state.range(1));
  pair.prepare(opcode, bytes, per_doorbell);
  pair.transfer();
  const double before = cpu_seconds();
  for (auto _ : state) pair.transfer();
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

// What idle connections cost a busy one. It should be nothing, because a message finds its QP by index.
void WriteBesideIdleQps(benchmark::State& state) {
  Pair pair;
  for (std::int64_t i = 0; i < state.range(0); ++i) pair.add_idle();
  constexpr std::uint32_t kEach = 64;
  pair.prepare(abi::Opcode::kRdmaWrite, 8, kEach);
  pair.transfer();
  const double before = cpu_seconds();
  for (auto _ : state) pair.transfer();
  state.counters["cpu_us_per_op"] =
      (cpu_seconds() - before) * 1e6 / (static_cast<double>(state.iterations()) * kEach);
}
BENCHMARK(WriteBesideIdleQps)->ArgName("idle")->Arg(0)->Arg(1000)->Arg(10'000);

// The first `bytes` bytes of the pages, or as many as a list has room for.
guestmem::SpanList spans_of(const std::vector<std::byte*>& pages, std::uint32_t bytes) {
  guestmem::SpanList out;
  for (std::size_t page = 0; page < bytes / abi::kPageBytes && out.append(pages[page], abi::kPageBytes);
       ++page) {
  }
  return out;
}

// Copies the same bytes between the memories of the same two guests, alternately with writes, to measure what
// one copy costs at that moment. The first memcpy sees one range through the driver's own mapping, however
// scattered the pages are. The second copies page by page between the pages' real addresses, which it has
// looked up before. Counter `copy_of_memcpy`: the daemon's copy between these pages, without the rest of a
// write, where one list has room for them.
void WriteAgainstMemcpy(benchmark::State& state) {
  Pair pair(state.range(1) == 0 ? driver::Placement::kContiguous : driver::Placement::kScattered);
  const auto bytes = static_cast<std::uint32_t>(state.range(0));
  constexpr std::uint32_t kEach = 64;
  pair.prepare(abi::Opcode::kRdmaWrite, bytes, kEach);
  const std::vector<std::byte*> from = Pair::pages_of(pair.a());
  const std::vector<std::byte*> to = Pair::pages_of(pair.b());
  const guestmem::SpanList source = spans_of(from, bytes);
  const guestmem::SpanList target = spans_of(to, bytes);
  double copying = 0;
  double copying_pages = 0;
  double copying_spans = 0;
  double writing = 0;
  for (auto _ : state) {
    const double start = cpu_seconds();
    for (std::uint32_t i = 0; i < kEach; ++i) {
      std::memcpy(pair.b().bytes(), pair.a().bytes(), bytes);
      benchmark::ClobberMemory();
    }
    const double copied = cpu_seconds();
    for (std::uint32_t i = 0; i < kEach; ++i) {
      for (std::size_t page = 0; page < bytes / abi::kPageBytes; ++page)
        std::memcpy(to[page], from[page], abi::kPageBytes);
      benchmark::ClobberMemory();
    }
    const double copied_pages = cpu_seconds();
    for (std::uint32_t i = 0; i < kEach; ++i) guestmem::copy(target, source, bytes);
    const double copied_spans = cpu_seconds();
    copying_spans += copied_spans - copied_pages;
    pair.transfer();
    copying += copied - start;
    copying_pages += copied_pages - copied;
    writing += cpu_seconds() - copied_spans;
  }
  const double total = static_cast<double>(state.iterations()) * kEach * bytes;
  state.counters["of_memcpy"] = copying / writing;
  state.counters["pages_of_memcpy"] = copying / copying_pages;
  if (source.bytes() == bytes) state.counters["copy_of_memcpy"] = copying / copying_spans;
  state.counters["memcpy_bytes_per_second"] = total / copying;
  state.counters["write_bytes_per_second"] = total / writing;
}
BENCHMARK(WriteAgainstMemcpy)
    ->ArgNames({"bytes", "scattered"})
    ->ArgsProduct({{4096, 65536, 1 << 20}, {0, 1}});

// The same transfers alternately with and without a log of written pages, as while a VM moves. Counter
// `of_unlogged`: the time without the log divided by the time with it; above 1, the log is faster.
void LoggedAgainstUnlogged(benchmark::State& state, abi::Opcode opcode) {
  Pair pair;
  pair.prepare(opcode, static_cast<std::uint32_t>(state.range(0)), 64);
  constexpr double kTurnSeconds = 1e-3;
  pair.transfer();
  const double before = cpu_seconds();
  pair.transfer();
  const int transfers = static_cast<int>(kTurnSeconds / (cpu_seconds() - before)) + 1;
  const auto turn = [&] {
    pair.transfer();  // the log's start or end has made the rings forget their addresses
    const double start = cpu_seconds();
    for (int i = 0; i < transfers; ++i) pair.transfer();
    return cpu_seconds() - start;
  };
  std::vector<double> ratios;
  double logged = 0;
  for (auto _ : state) {
    const double without = turn();
    pair.start_logs();
    const double with = turn();
    pair.stop_logs();
    ratios.push_back(without / with);
    logged += with;
  }
  std::ranges::nth_element(ratios, ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2));
  state.counters["of_unlogged"] = ratios[ratios.size() / 2];
  state.counters["cpu_us_per_op"] = logged * 1e6 / (static_cast<double>(state.iterations()) * transfers * 64);
}
BENCHMARK_CAPTURE(LoggedAgainstUnlogged, write, abi::Opcode::kRdmaWrite)
    ->ArgName("bytes")
    ->Arg(8)
    ->Arg(65536);
BENCHMARK_CAPTURE(LoggedAgainstUnlogged, read, abi::Opcode::kRdmaRead)->ArgName("bytes")->Arg(8)->Arg(65536);
BENCHMARK_CAPTURE(LoggedAgainstUnlogged, send, abi::Opcode::kSend)->ArgName("bytes")->Arg(8)->Arg(65536);

}  // namespace
}  // namespace pvrdma

int main(int argc, char** argv) {
  pvrdma::log::set_level(pvrdma::log::Level::kError);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
