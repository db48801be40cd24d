#include "driver/vfio_user_bus.h"

#include <cerrno>

namespace pvrdma::driver {
namespace {

constexpr std::uint32_t kMsixIrqIndex = 2;  // as VFIO counts them: 0 INTx, 1 MSI, 2 MSI-X

Failure disconnected() {
  return fail(ENOTCONN, "the vfio-user connection was ended by its owner");
}

constexpr std::uint32_t number(Region region) {
  return static_cast<std::uint32_t>(region);
}

}  // namespace

Result<std::unique_ptr<VfioUserBus>> VfioUserBus::connect(const std::string& path, Duration reply_timeout,
                                                          AreaUse doorbells) {
  auto client = vfio_user::Client::connect(path, reply_timeout);
  if (!client) return Failure(std::move(client.error()));
  auto bus = create(std::move(*client), doorbells);
  if (!bus) return Failure(std::move(bus.error()).in(path));
  return bus;
}

Result<std::unique_ptr<VfioUserBus>> VfioUserBus::create(std::unique_ptr<vfio_user::Client> client,
                                                         AreaUse doorbells) {
  std::unique_ptr<VfioUserBus> bus(new VfioUserBus(std::move(client)));
  if (doorbells == AreaUse::kMapped) {
    if (auto mapped = bus->map_doorbells(); !mapped) return Failure(std::move(mapped.error()));
  }
  return bus;
}

Result<> VfioUserBus::map_doorbells() {
  auto region = client_->region_info(number(Region::kUar));
  if (!region) return Failure(std::move(region.error()));
  auto areas = MappedAreas::create(region->info, region->fd.get());
  if (!areas) return Failure(std::move(areas.error()));
  doorbells_ = std::move(*areas);
  return {};
}

Result<std::uint32_t> VfioUserBus::region_read32(Region region, std::uint64_t offset) {
  std::uint32_t value = 0;
  auto done = region_read(region, offset, std::as_writable_bytes(std::span(&value, 1)));
  if (!done) return Failure(std::move(done.error()));
  return value;
}

Result<> VfioUserBus::region_write32(Region region, std::uint64_t offset, std::uint32_t value) {
  return region_write(region, offset, std::as_bytes(std::span(&value, 1)));
}

Result<> VfioUserBus::region_read(Region region, std::uint64_t offset, std::span<std::byte> out) {
  if (!client_) return disconnected();
  if (is_mapped(region) && doorbells_->read(offset, out)) return {};
  return client_->region_read(number(region), offset, out);
}

Result<> VfioUserBus::region_write(Region region, std::uint64_t offset, std::span<const std::byte> data) {
  if (!client_) return disconnected();
  if (is_mapped(region) && doorbells_->write(offset, data)) return {};
  return client_->region_write(number(region), offset, data);
}

Result<std::uint64_t> VfioUserBus::region_bytes(Region region) {
  if (!client_) return disconnected();
  auto info = client_->region_info(number(region));
  if (!info) return Failure(std::move(info.error()));
  return info->info.size;
}

Result<> VfioUserBus::dma_map(std::uint64_t iova, std::uint64_t bytes, int fd, std::uint64_t fd_offset) {
  if (!client_) return disconnected();
  return client_->dma_map(
      {.iova = iova, .size = bytes, .fd_offset = fd_offset, .readable = true, .writable = true}, fd);
}

Result<> VfioUserBus::dma_unmap(std::uint64_t iova, std::uint64_t bytes) {
  if (!client_) return disconnected();
  return client_->dma_unmap(iova, bytes);
}

Result<> VfioUserBus::set_vector_eventfd(std::uint32_t vector, int eventfd) {
  if (!client_) return disconnected();
  return client_->set_irq_eventfd(kMsixIrqIndex, vector, eventfd);
}

Result<> VfioUserBus::disable_vectors() {
  if (!client_) return disconnected();
  return client_->disable_irqs(kMsixIrqIndex);
}

Result<> VfioUserBus::reset() {
  if (!client_) return disconnected();
  return client_->reset();
}

}  // namespace pvrdma::driver
