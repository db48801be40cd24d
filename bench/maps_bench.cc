// What many maps of guest memory cost: virtio-mem makes one for each block that it plugs.
#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "guestmem/address_space.h"
#include "guestmem/sigbus.h"

namespace pvrdma::guestmem {
namespace {

constexpr std::uint64_t kBlock = 2u << 20;  // virtio-mem's

void fill(AddressSpace& memory, const Fd& ram, std::uint64_t maps) {
  for (std::uint64_t i = 0; i < maps; ++i) {
    PVRDMA_CHECK(memory.map(GuestPhys(i * kBlock), kBlock, ram, i * kBlock, true, true), "there is room");
  }
}

Fd ram_for(std::uint64_t maps) {
  PVRDMA_CHECK(install_sigbus_handler(), "a handler");
  Fd ram(::memfd_create("maps_bench", MFD_CLOEXEC));
  PVRDMA_CHECK(::ftruncate(ram.get(), static_cast<off_t>(maps * kBlock)) == 0, "a sparse file");
  return ram;
}

// Each look-up is in another map than the one before.
void LookUp(benchmark::State& state) {
  const auto maps = static_cast<std::uint64_t>(state.range(0));
  const Fd ram = ram_for(maps);
  AddressSpace memory;
  fill(memory, ram, maps);
  std::uint64_t block = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(memory.translate(GuestPhys(block * kBlock + 64), 64, Access::kRead));
    block = (block + 4099) % maps;  // a prime, so it visits all of them
  }
}
BENCHMARK(LookUp)->Arg(2)->Arg(512)->Arg(kMaxRamMaps);

// The time of all maps together.
void Map(benchmark::State& state) {
  const auto maps = static_cast<std::uint64_t>(state.range(0));
  const Fd ram = ram_for(maps);
  AddressSpace memory;
  for (auto _ : state) {
    fill(memory, ram, maps);
    state.PauseTiming();
    memory.unmap_all();
    state.ResumeTiming();
  }
}
BENCHMARK(Map)->Arg(kMaxRamMaps)->Unit(benchmark::kMillisecond);

// The time of one call that forgets all maps; the reaper unmaps them later.
void UnmapTogether(benchmark::State& state) {
  const auto maps = static_cast<std::uint64_t>(state.range(0));
  const Fd ram = ram_for(maps);
  const auto reaper = std::move(Reaper::create().value());
  const auto queue = reaper->open_queue();
  AddressSpace memory(queue);
  for (auto _ : state) {
    state.PauseTiming();
    while (queue->waiting() != 0) ::usleep(1000);
    while (memory.account().mappings().used() != 0) ::usleep(1000);
    fill(memory, ram, maps);
    state.ResumeTiming();
    PVRDMA_CHECK(memory.unmap(GuestPhys(0), maps * kBlock) == 0, "they are there");
  }
}
BENCHMARK(UnmapTogether)->Arg(kMaxRamMaps)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pvrdma::guestmem

BENCHMARK_MAIN();
