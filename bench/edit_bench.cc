// What an edit of the cluster costs a daemon, without the store's own time: the plane uses a store in memory.
#include <fmt/core.h>
#include <memory>
#include <string>

#include "benchmark/benchmark.h"

#include "base/check.h"
#include "control/model/edits.h"
#include "control/plane/plane.h"
#include "support/fake_store.h"

namespace pvrdma::control {
namespace {

std::string vm_name(std::int64_t index) {
  return fmt::format("vm-{:04}", index);
}

// Makes one host with a switch and `vms` VMs, each with an adapter.
Result<void> fill(Inventory& inventory, std::int64_t vms) {
  auto done = edits::add_host(inventory, "esx-01");
  if (done) done = edits::create_dvs(inventory, {"dvs", "8.0.0", 2});
  if (done) done = edits::add_portgroup(inventory, "dvs", "pg", {.vlan = 5});
  if (done) done = edits::add_vmk(inventory, "esx-01", "vmk2", "10.0.0.1");
  if (done) done = edits::set_advanced(inventory, "esx-01", edits::kPvrdmaVmknic, "vmk2");
  if (done) done = edits::add_dvs_host(inventory, "dvs", "esx-01");
  for (std::int64_t index = 0; done && index < vms; ++index) {
    done = edits::create_vm(inventory, {vm_name(index), "esx-01", 14, 1024, 1024});
    if (done) done = edits::add_adapter(inventory, vm_name(index), {.dvs = "dvs", .portgroup = "pg"});
  }
  return done;
}

void EditOneVm(benchmark::State& state) {
  auto plane =
      Plane::start("esx-01", "bench", std::make_unique<FakeStore>(std::make_shared<FakeCluster>()), nullptr)
          .value();
  const auto filled = plane->edit([&](Inventory& inventory) { return fill(inventory, state.range(0)); });
  PVRDMA_CHECK(filled.has_value(), "the bench's cluster obeys the rules");
  const std::string vm = vm_name(state.range(0) / 2);
  std::uint32_t memory_mib = 1024;
  for (auto _ : state) {
    memory_mib = memory_mib == 1024 ? 2048 : 1024;
    const auto edited = plane->edit([&](Inventory& inventory) {
      inventory.vms[vm].memory_mib = memory_mib;
      return Result<void>();
    });
    PVRDMA_CHECK(edited.has_value(), "nobody else edits");
  }
}
BENCHMARK(EditOneVm)->ArgName("vms")->Arg(100)->Arg(1000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace pvrdma::control

BENCHMARK_MAIN();
