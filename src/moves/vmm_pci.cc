#include "moves/vmm_pci.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <fmt/core.h>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <system_error>

#include "vfio_user/session.h"

namespace pvrdma::moves {
namespace {

using Vmm = motion::AdapterSide::Vmm;

static_assert(sizeof(device::MsixTable) == vmm::kMsixTableBytes);

// A VMM's answer to the shard, for the thread that waits for it.
struct Reply {
  std::mutex mutex;
  std::condition_variable arrived;
  bool is_there = false;  // guarded by mutex, like the following members
  int error = 0;
  device::MsixTable table{};
};

device::PciState state_of(const vmm::PciImage& image) {
  return {image.config, image.msix_table.has_value(), image.msix_table.value_or(device::MsixTable{})};
}

// Null: there is no successor. Call it on the shard.
adapters::SeatedAdapter* seat_of(adapters::ServedAdapter& served, Vmm vmm) {
  return vmm == Vmm::kOwn ? &served.seated() : served.successor();
}

Failure no_successor(const adapters::ServedAdapter& served) {
  return fail(EPIPE, fmt::format("adapter {}: the new VMM has left", served.port().name()));
}

// Checks that the guest's adapter has a vector for each entry that the guest uses. Call it on the shard.
Result<void> check_vectors_in_use(adapters::ServedAdapter& served, std::uint32_t used) {
  const std::uint32_t assigned = served.adapter().vectors_assigned();
  if (assigned >= used) return {};
  return fail(EIO, fmt::format("adapter {}: the new VMM has given {} interrupt vectors, the guest uses {}",
                               served.port().name(), assigned, used));
}

Result<void> check_successors_vectors(adapters::ServedAdapter& served) {
  if (served.successor() == nullptr) return no_successor(served);
  const std::uint32_t has = served.successor()->adapter().vectors_assigned();
  const std::uint32_t had = served.adapter().vectors_assigned();
  if (has == had) return {};
  return fail(EIO, fmt::format("adapter {}: the new VMM has given {} interrupt vectors, the old one {}",
                               served.port().name(), has, had));
}

}  // namespace

vmm::PciImage image_of(const device::PciState& state) {
  return {state.config, state.has_msix_table ? std::optional(state.msix_table) : std::nullopt};
}

Result<vmm::PciImage> VmmPci::image(const std::string& adapter, Vmm vmm) {
  const auto pci = state(adapter, vmm);
  if (!pci) return Failure(pci.error());
  return image_of(*pci);
}

Result<device::PciState> VmmPci::state(const std::string& adapter, Vmm vmm) {
  auto pci = shards_.on(
      adapter,
      [vmm](adapters::ServedAdapter& served) -> Result<device::PciState> {
        adapters::SeatedAdapter* const seated = seat_of(served, vmm);
        if (seated == nullptr) return no_successor(served);
        return seated->adapter().pci_state(std::nullopt);
      },
      kHandOver);
  if (!pci || !device::msix_table_address(*pci)) return pci;
  const auto table = exchange_table(adapter, vmm, nullptr);
  if (!table) return Failure(table.error());
  pci->has_msix_table = true;
  pci->msix_table = *table;
  return pci;
}

// The VMM treats accesses to the guest-physical address of a BAR like the guest's accesses.
Result<device::MsixTable> VmmPci::exchange_table(const std::string& adapter, Vmm vmm,
                                                 const device::MsixTable* written) {
  auto reply = std::make_shared<Reply>();
  const auto done = [reply](int error, std::span<const std::byte> data) {
    {
      const std::lock_guard lock(reply->mutex);
      reply->is_there = true;
      reply->error = error;
      std::copy_n(data.begin(), std::min(data.size(), reply->table.size()),
                  std::as_writable_bytes(std::span(reply->table)).begin());
    }
    reply->arrived.notify_one();
  };
  const std::optional<device::MsixTable> table = written != nullptr ? std::optional(*written) : std::nullopt;
  const auto asked = shards_.on(
      adapter,
      [adapter, vmm, table, done](adapters::ServedAdapter& served) -> Result<void> {
        adapters::SeatedAdapter* const seated = seat_of(served, vmm);
        if (seated == nullptr) return no_successor(served);
        const auto address = device::msix_table_address(seated->adapter().pci_state(std::nullopt));
        if (!address)
          return fail(EIO, fmt::format("adapter {}: its MSI-X table has no address in its VMM", adapter));
        auto sent = table ? seated->seat().dma_write(*address, std::as_bytes(std::span(*table)), done)
                          : seated->seat().dma_read(*address, vmm::kMsixTableBytes, done);
        seated->follow();
        return sent;
      },
      kHandOver);
  if (!asked) return Failure(asked.error());
  std::unique_lock lock(reply->mutex);
  const bool came =
      reply->arrived.wait_for(lock, vfio_user::Session::kRequestTimeLimit + adapters::kShardPatience,
                              [&reply] { return reply->is_there; });
  lock.unlock();
  if (!came) {
    return fail(ErrorKind::kUnavailable, ETIMEDOUT,
                "the shard did not answer in time: it is overloaded or stuck");
  }
  if (reply->error != 0) {  // the callback has run, so nothing writes it any more
    return fail(reply->error, fmt::format("adapter {}: its VMM does not let the MSI-X table be {}: {}",
                                          adapter, written != nullptr ? "written" : "read",
                                          std::generic_category().message(reply->error)));
  }
  return reply->table;
}

Result<void> VmmPci::write_msix_table(const std::string& adapter, Vmm vmm, const vmm::PciImage& image) {
  const device::MsixTable table = image.msix_table.value_or(device::MsixTable{});
  const auto written = exchange_table(adapter, vmm, &table);
  if (!written) return Failure(written.error());
  return {};
}

Result<void> VmmPci::check(const std::string& adapter, Vmm vmm, const vmm::PciImage& image) {
  const auto here = state(adapter, vmm);
  if (!here) return Failure(here.error());
  if (const auto other = device::difference(*here, state_of(image)))
    return fail(EIO, fmt::format("adapter {}: the new VMM has another PCI state: {}", adapter, *other));
  return shards_.on(
      adapter,
      [vmm, used = device::vectors_open(state_of(image))](adapters::ServedAdapter& served) {
        return vmm == Vmm::kOwn ? check_vectors_in_use(served, used) : check_successors_vectors(served);
      },
      kHandOver);
}

}  // namespace pvrdma::moves
