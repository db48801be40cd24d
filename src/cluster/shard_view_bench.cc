// The cost of an inventory change for each daemon of a large cluster: 50 hosts, 200 VMs, and the number of
// GIDs in the argument. The cluster's thread makes the copy and the view, and the shard takes the view over.
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include "base/time.h"
#include "cluster/shard_view.h"
#include "control/model/edits.h"
#include "fabric/fabric.h"

namespace pvrdma::cluster {
namespace {

constexpr int kHosts = 50;
constexpr int kVms = 200;

void must(const Result<void>& done) {
  if (!done) throw std::runtime_error(done.error().message);
}

std::string host_of(int number) {
  return fmt::format("esx-{:02}", number % kHosts);
}

control::Inventory large_cluster(std::int64_t gids) {
  namespace edits = control::edits;
  control::Inventory inventory;
  must(edits::create_dvs(inventory, {.name = "dvs1"}));
  must(edits::add_portgroup(inventory, "dvs1", "pg1", {.vlan = 7}));
  for (int i = 0; i < kHosts; ++i) {
    must(edits::add_host(inventory, host_of(i)));
    must(edits::add_vmk(inventory, host_of(i), "vmk2", fmt::format("10.0.0.{}", i + 1)));
    must(edits::set_advanced(inventory, host_of(i), edits::kPvrdmaVmknic, "vmk2"));
    must(edits::set_ruleset(inventory, host_of(i), edits::kRuleset, true, std::nullopt));
    must(edits::add_dvs_host(inventory, "dvs1", host_of(i)));
    inventory.live_hosts[host_of(i)].name = host_of(i);
  }
  for (int i = 0; i < kVms; ++i) {
    const std::string vm = fmt::format("vm-{:03}", i);
    must(edits::create_vm(inventory,
                          {.name = vm, .host = host_of(i), .memory_mib = 512, .memory_reserved_mib = 512}));
    must(edits::add_adapter(inventory, vm, {.portgroup = "pg1"}));
  }
  const control::SegmentKey segment{inventory.switches.at("dvs1").id, 7};
  for (std::int64_t i = 0; i < gids; ++i) {
    inventory.gids[{segment, fmt::format("00000000000000000000ffff0a{:06x}", i)}] = {
        fmt::format("vm-{:03}", i % kVms), host_of(static_cast<int>(i % kVms))};
  }
  return inventory;
}

void CopyInventory(benchmark::State& state) {
  const control::Inventory inventory = large_cluster(state.range(0));
  for (auto _ : state) {
    control::Inventory copy = inventory;
    benchmark::DoNotOptimize(copy);
  }
}
BENCHMARK(CopyInventory)->ArgName("gids")->Arg(1000)->Arg(10'000)->Unit(benchmark::kMillisecond);

void ComputeView(benchmark::State& state) {
  const control::Inventory inventory = large_cluster(state.range(0));
  HostIds ids;
  for (auto _ : state) benchmark::DoNotOptimize(compute_view(inventory, "esx-00", "/run/pvrdma", ids));
}
BENCHMARK(ComputeView)->ArgName("gids")->Arg(1000)->Arg(10'000)->Unit(benchmark::kMillisecond);

// On the shard: adds and removes one GID in turn.
void TakeView(benchmark::State& state) {
  control::Inventory inventory = large_cluster(state.range(0));
  HostIds ids;
  const fabric::View all = compute_view(inventory, "esx-00", "/run/pvrdma", ids).fabric;
  inventory.gids.erase(std::next(inventory.gids.begin()));  // another host now holds it
  const fabric::View fewer = compute_view(inventory, "esx-00", "/run/pvrdma", ids).fabric;
  const SteadyClock clock;
  fabric::Fabric fabric(clock);
  fabric.segment(all.gids.at(0).segment);
  bool odd = false;
  for (auto _ : state) fabric.set_view((odd = !odd) ? all : fewer);
}
BENCHMARK(TakeView)->ArgName("gids")->Arg(1000)->Arg(10'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pvrdma::cluster

BENCHMARK_MAIN();
