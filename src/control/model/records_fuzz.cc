// Fuzzes records, as any store might hold them.
//
// Input: lines, alternately a key and its value; an empty value deletes. The fuzzer checks: nothing crashes.
// A refused record changes nothing. The accepted configuration is the same after it is written and read
// again, however its records were spelled. All other readers of an inventory run on it, too.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "control/model/records.h"
#include "control/model/rules.h"
#include "control/model/views.h"

namespace pvrdma::control {
namespace {

constexpr int kChangesMax = 64;

std::string_view take_line(std::string_view& input) {
  const std::size_t end = std::min(input.find('\n'), input.size());
  const std::string_view line = input.substr(0, end);
  input.remove_prefix(std::min(end + 1, input.size()));
  return line;
}

void check_round_trip(const Inventory& inventory) {
  const auto records = difference({}, inventory);
  Inventory again;
  for (const Change& change : records) {
    PVRDMA_CHECK(apply(again, change).has_value(), "what this version writes, it reads");
  }
  PVRDMA_CHECK(
      again.hosts == inventory.hosts && again.switches == inventory.switches && again.vms == inventory.vms,
      "the objects survive");
  PVRDMA_CHECK(again.revision == inventory.revision && again.next_dvs_id == inventory.next_dvs_id,
               "the guard survives");
  PVRDMA_CHECK(difference({}, again) == records, "one spelling each");
  for (const auto& [name, live] : inventory.live_hosts) {
    PVRDMA_CHECK(apply(again, {live_host_key(name), live_host_value(live)}).has_value(),
                 "live hosts are read");
  }
  PVRDMA_CHECK(again.live_hosts == inventory.live_hosts, "live hosts survive");
  for (const auto& [key, holder] : inventory.gids) {
    PVRDMA_CHECK(apply(again, {gid_key(key), gid_value(holder)}).has_value(), "GIDs are read");
  }
  PVRDMA_CHECK(again.gids == inventory.gids, "GIDs survive");
}

void look_at(const Inventory& inventory) {
  for (const auto& [name, host] : inventory.hosts) {
    PVRDMA_CHECK(!schema::text_of(view_of(inventory, host, true)).empty(), "a host can be shown");
    for (const auto& [other, unused] : inventory.hosts) {
      PVRDMA_CHECK(!choose_path(inventory, name, other).reason.empty(), "a choice has a reason");
    }
  }
  for (const auto& [name, dvs] : inventory.switches)
    PVRDMA_CHECK(!schema::text_of(view_of(dvs)).empty(), "a switch can be shown");
  for (const auto& [name, vm] : inventory.vms) {
    PVRDMA_CHECK(!schema::text_of(view_of(inventory, vm, "")).empty(), "a VM can be shown");
    PVRDMA_CHECK(!check_power_on(inventory, name) || segment_of(inventory, vm),
                 "what may be on has a segment");
  }
}

void run(std::string_view input) {
  Inventory inventory;
  for (int i = 0; i < kChangesMax && !input.empty(); ++i) {
    const std::string key(take_line(input));
    const std::string value(take_line(input));
    const Inventory before = inventory;
    const auto applied = apply(inventory, {key, value.empty() ? std::nullopt : std::optional(value)});
    PVRDMA_CHECK(applied || (!applied.error().message.empty() && inventory == before),
                 "a refused record changes nothing and says why");
  }
  check_round_trip(inventory);
  look_at(inventory);
}

}  // namespace
}  // namespace pvrdma::control

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pvrdma::control::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
