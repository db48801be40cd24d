// What it costs to save and load an adapter, and to start and stop the log of written pages. Meanwhile the
// guest of a move is paused, and all other guests of the shard wait (ADR 16).
#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "benchmark/benchmark.h"

#include "base/check.h"
#include "base/fd.h"
#include "base/log.h"
#include "guestmem/address_space.h"
#include "state/reader.h"
#include "state/writer.h"
#include "support/must.h"
#include "support/testbench.h"

namespace pvrdma {
namespace {

using test::must;

constexpr std::uint64_t kGib = 1u << 30;

test::TestbenchOptions options(std::uint64_t ram_bytes) {
  test::TestbenchOptions out;
  out.driver.ram.size_bytes = ram_bytes;
  return out;
}

// A host whose first adapter is saved and loaded.
class Subject {
 public:
  explicit Subject(std::uint64_t ram_bytes) : bench_(options(ram_bytes)) {}

  // Makes `qps` connected QPs, each with two CQs and a region of one page. `works` requests of each wait for
  // a receive.
  void connect(std::uint32_t qps, std::uint32_t works) {
    const test::EndpointOptions small{
        .cq_entries = 64, .max_send_wr = 64, .max_recv_wr = 64, .buffer_bytes = 4096};
    for (std::uint32_t i = 0; i < qps; ++i) {
      auto here = std::make_unique<test::RcEndpoint>(bench_.device(0), test::gid_of(0), small);
      auto there = std::make_unique<test::RcEndpoint>(bench_.device(1), test::gid_of(1), small);
      must(test::connect(*here, *there));
      const driver::Sge sge = here->sge(0, 64);
      for (std::uint32_t work = 0; work < works; ++work)
        PVRDMA_CHECK(here->qp->post_send(driver::wr::send(work, std::span(&sge, 1))).ok(), "it has room");
      ends_.push_back(std::move(here));
      ends_.push_back(std::move(there));
    }
    bench_.run();
  }

  enum class Pages { kAdjacent, kScattered };
  // Registers `gib` regions of 1 GiB each, which name the same pages.
  void register_memory(std::uint32_t gib, Pages order) {
    driver::Device& device = bench_.device(0);
    pd_ = must(driver::ProtectionDomain::create(device.kernel()));
    std::vector<driver::GuestPhys> pages;
    for (std::uint64_t at = 0; at < kGib; at += abi::kPageBytes)
      pages.emplace_back(driver::GuestRam::Options{}.base.value + at);
    if (order == Pages::kScattered) std::shuffle(pages.begin(), pages.end(), std::mt19937(7));
    for (std::uint32_t i = 0; i < gib; ++i)
      regions_.push_back(must(driver::MemoryRegion::of_pages(
          *pd_, {.start = kGib, .length = kGib, .access = abi::kAccessLocalWrite, .pages = pages})));
  }

  std::vector<std::byte> save() {
    state::Writer writer;
    bench_.adapter(0).save(writer, std::nullopt, bench_.now());
    return writer.finish();
  }
  void load(std::span<const std::byte> stream) {
    state::Reader reader(stream);
    must(bench_.adapter(0).load(reader, bench_.now()));
  }
  // Removes the driver's objects, and frees their memory.
  void empty() {
    bench_.adapter(0).reset();
    while (bench_.adapter(0).engine().run(bench_.now())) {
    }
  }

 private:
  test::Testbench bench_;
  std::unique_ptr<driver::ProtectionDomain> pd_;
  std::vector<std::unique_ptr<driver::MemoryRegion>> regions_;
  std::vector<std::unique_ptr<test::RcEndpoint>> ends_;
};

void save(benchmark::State& state, Subject& subject) {
  std::size_t bytes = 0;
  for (auto _ : state) bytes = subject.save().size();
  state.counters["bytes"] = static_cast<double>(bytes);
}

void load(benchmark::State& state, Subject& subject) {
  const std::vector<std::byte> stream = subject.save();
  for (auto _ : state) {
    state.PauseTiming();
    subject.empty();
    state.ResumeTiming();
    subject.load(stream);
  }
  state.counters["bytes"] = static_cast<double>(stream.size());
}

template <void (*measure)(benchmark::State&, Subject&)>
void Qps(benchmark::State& state) {
  Subject subject(256u << 20);
  subject.connect(static_cast<std::uint32_t>(state.range(0)), static_cast<std::uint32_t>(state.range(1)));
  measure(state, subject);
}

template <void (*measure)(benchmark::State&, Subject&)>
void Memory(benchmark::State& state) {
  Subject subject(kGib + (64u << 20));
  subject.register_memory(static_cast<std::uint32_t>(state.range(0)),
                          state.range(1) != 0 ? Subject::Pages::kScattered : Subject::Pages::kAdjacent);
  measure(state, subject);
}

void some_qps(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"qps", "works"})->Args({1000, 0})->Args({1000, 1});
  bench->Unit(benchmark::kMillisecond)->Iterations(20);
}
BENCHMARK(Qps<save>)->Name("SaveQps")->Apply(some_qps);
BENCHMARK(Qps<load>)->Name("LoadQps")->Apply(some_qps);

void some_memory(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"gib", "scattered"})->Args({4, 0})->Args({4, 1});
  bench->Unit(benchmark::kMillisecond)->Iterations(10);
}
BENCHMARK(Memory<save>)->Name("SaveMemory")->Apply(some_memory);
BENCHMARK(Memory<load>)->Name("LoadMemory")->Apply(some_memory);

// The memory of a VM for a log of written pages, which has a bit for each page.
class LoggedMemory {
 public:
  explicit LoggedMemory(std::uint64_t gib) {
    const Fd fd(::memfd_create("logged", MFD_CLOEXEC));
    PVRDMA_CHECK(fd && ::ftruncate(fd.get(), static_cast<off_t>(gib * kGib)) == 0, "a memfd");
    must(memory.map(guestmem::GuestPhys(0), gib * kGib, fd, 0, true, true));
  }
  guestmem::AddressSpace memory;
};

void StartLog(benchmark::State& state) {
  LoggedMemory logged(static_cast<std::uint64_t>(state.range(0)));
  for (auto _ : state) {
    must(logged.memory.start_log());
    state.PauseTiming();
    logged.memory.stop_log();
    state.ResumeTiming();
  }
}

void StopLog(benchmark::State& state) {
  LoggedMemory logged(static_cast<std::uint64_t>(state.range(0)));
  for (auto _ : state) {
    state.PauseTiming();
    must(logged.memory.start_log());
    state.ResumeTiming();
    logged.memory.stop_log();
  }
}

void some_ram(benchmark::internal::Benchmark* bench) {
  bench->ArgName("gib")->Arg(64)->Arg(2048)->Unit(benchmark::kMillisecond)->Iterations(20);
}
BENCHMARK(StartLog)->Apply(some_ram);
BENCHMARK(StopLog)->Apply(some_ram);

}  // namespace
}  // namespace pvrdma

int main(int argc, char** argv) {
  pvrdma::log::set_level(pvrdma::log::Level::kError);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
