// The bare copy, in each way that this CPU has (guestmem/store_way.h), by turns with memcpy() in one loop.
// Counter `of_memcpy`: memcpy's time divided by the copy's. `bytes_per_second` is the copy's, in CPU time.
// Both run over the same pages of shared memory, as two guests' are.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <time.h>
#include <vector>

#include "benchmark/benchmark.h"

#include "base/check.h"
#include "guestmem/store_once.h"
#include "guestmem/store_way.h"

namespace pvrdma {
namespace {

constexpr std::size_t kMost = 16u << 20;

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::byte* shared_memory(int value) {
  void* const out = ::mmap(nullptr, kMost + 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  PVRDMA_CHECK(out != MAP_FAILED, "the bench needs memory");
  std::memset(out, value, kMost + 4096);
  return static_cast<std::byte*>(out);
}

void Copy(benchmark::State& state, const guestmem::StoreWay& way) {
  static std::byte* const from = shared_memory(1);
  static std::byte* const to = shared_memory(2);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::byte* const place = to + state.range(1);
  const std::size_t each = std::max<std::size_t>(1, (1u << 20) / bytes);
  const guestmem::StoreWay usual = guestmem::store_way();
  guestmem::set_store_way(way);
  std::vector<double> ratios;
  double copying = 0;
  for (auto _ : state) {
    const double start = cpu_seconds();
    for (std::size_t i = 0; i < each; ++i) {
      std::memcpy(place, from, bytes);
      benchmark::ClobberMemory();
    }
    const double middle = cpu_seconds();
    for (std::size_t i = 0; i < each; ++i) guestmem::store_once(place, from, bytes);
    const double end = cpu_seconds();
    ratios.push_back((middle - start) / (end - middle));
    copying += end - middle;
  }
  guestmem::set_store_way(usual);
  std::ranges::nth_element(ratios, ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2));
  state.counters["of_memcpy"] = ratios[ratios.size() / 2];
  state.counters["bytes_per_second"] =
      static_cast<double>(state.iterations()) * static_cast<double>(each * bytes) / copying;
}

void register_way(const std::string& name, const guestmem::StoreWay& way) {
  benchmark::RegisterBenchmark(("Copy/" + name).c_str(), Copy, way)
      ->ArgNames({"bytes", "to_offset"})
      ->ArgsProduct({{64, 128, 256, 512, 1024, 4096, 16 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20, kMost},
                     {0, 20}});
}

}  // namespace
}  // namespace pvrdma

int main(int argc, char** argv) {
  using pvrdma::guestmem::StoreWay;
  for (StoreWay way : pvrdma::guestmem::store_ways()) {
    way.long_above = SIZE_MAX;
    pvrdma::register_way(way.name, way);
  }
  StoreWay strings = pvrdma::guestmem::store_ways().back();
  if (strings.long_copy != strings.lines) {
    strings.long_above = 0;
    pvrdma::register_way("string", strings);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
