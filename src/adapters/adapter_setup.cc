#include "adapters/adapter_setup.h"

#include <algorithm>
#include <cstdint>

#include "base/log.h"
#include "device/describe.h"
#include "device/differing.h"
#include "guestmem/mapped_memory.h"

namespace pvrdma::adapters {

AdapterSetup to_setup(const control::AdapterConfig& adapter, const Budgets& budgets,
                      verbs::HostAccount* account) {
  AdapterSetup setup{.addresses = fabric::to_gids(adapter.addresses),
                     .may_reach_natives = offers_natives(adapter.hardware_version, adapter.profile),
                     .socket = adapter.socket,
                     .owner = adapter.owner};
  setup.device.name = adapter.name;
  setup.device.mac = adapter.mac;
  setup.device.hardware_version = adapter.hardware_version;
  setup.device.roce = adapter.roce;
  setup.device.profile = adapter.profile;
  setup.device.doorbells = adapter.doorbells;
  setup.device.mtu = adapter.mtu;
  setup.device.budgets = budgets;
  setup.device.host = account;
  return setup;
}

AdapterSetup to_setup(const WantedAdapter& wanted, const Budgets& budgets, verbs::HostAccount* account) {
  AdapterSetup setup = to_setup(wanted.config, budgets, account);
  if (wanted.memory_mib != 0) {
    std::uint64_t& mapped_mib = setup.device.budgets.mapped_mib;
    mapped_mib = std::min(mapped_mib, guestmem::mapped_bytes_for(wanted.memory_mib << 20) >> 20);
  }
  return setup;
}

bool keep_to_client(AdapterSetup& setup, const GivenBack* given) {
  if (given == nullptr || !given->record.has_client) return false;
  state::Reader reader(given->stream);
  skip_kept_record(reader);
  const auto told = device::read_identity(reader);
  if (!told) return false;  // take_back() will report why
  const auto now = device::identity_of(setup.device);
  const auto other = now ? device::differing(*now, *told) : now.error().message;
  if (!other) return false;
  device::keep_to(*told, setup.device);
  setup.may_reach_natives = offers_natives(told->hardware_version, told->profile);
  log::info("adapter {}: its guest keeps its earlier settings until the VM's next power-on: {}",
            setup.device.name, *other);
  return true;
}

}  // namespace pvrdma::adapters
