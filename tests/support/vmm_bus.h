// VmmBus: the bus of a guest whose VMM may be replaced. It knows the shared memory and the vectors' eventfds,
// as a VMM does, so another client can take the guest over. (Real VMMs also have BARs and the MSI-X table;
// this guest has none.)
//
// Thread: one at a time; blocks.
#pragma once

#include <array>
#include <memory>
#include <unistd.h>
#include <utility>
#include <vector>

#include "abi/registers.h"
#include "base/fd.h"
#include "driver/vfio_user_bus.h"
#include "support/must.h"

namespace pvrdma::test {

class VmmBus : public driver::Bus {
 public:
  struct Map {
    std::uint64_t iova;
    std::uint64_t bytes;
    Fd fd;
    std::uint64_t fd_offset;
  };

  explicit VmmBus(std::unique_ptr<driver::VfioUserBus> bus) : bus_(std::move(bus)) {}

  const std::vector<Map>& maps() const { return maps_; }

  // Gives `next` the configuration space, the memory and the eventfds.
  void prepare(driver::VfioUserBus& next) {
    std::vector<std::byte> config(64);
    must(bus_->region_read(driver::Region::kConfig, 0, config));
    must(next.region_write(driver::Region::kConfig, 0, config));
    for (const Map& map : maps_) must(next.dma_map(map.iova, map.bytes, map.fd.get(), map.fd_offset));
    for (std::uint32_t vector = 0; vector < vectors_.size(); ++vector) {
      if (vectors_[vector]) must(next.set_vector_eventfd(vector, vectors_[vector].get()));
    }
  }

  Result<std::uint32_t> region_read32(driver::Region region, std::uint64_t offset) override {
    return access().region_read32(region, offset);
  }
  Result<> region_write32(driver::Region region, std::uint64_t offset, std::uint32_t value) override {
    return access().region_write32(region, offset, value);
  }
  Result<> region_read(driver::Region region, std::uint64_t offset, std::span<std::byte> out) override {
    return access().region_read(region, offset, out);
  }
  Result<> region_write(driver::Region region, std::uint64_t offset,
                        std::span<const std::byte> data) override {
    return access().region_write(region, offset, data);
  }
  Result<std::uint64_t> region_bytes(driver::Region region) override { return bus_->region_bytes(region); }
  Result<> dma_map(std::uint64_t iova, std::uint64_t bytes, int fd, std::uint64_t fd_offset) override {
    maps_.push_back({iova, bytes, Fd(::dup(fd)), fd_offset});
    return bus_->dma_map(iova, bytes, fd, fd_offset);
  }
  Result<> dma_unmap(std::uint64_t iova, std::uint64_t bytes) override {
    std::erase_if(maps_, [iova](const Map& map) { return map.iova == iova; });
    return bus_->dma_unmap(iova, bytes);
  }
  Result<> set_vector_eventfd(std::uint32_t vector, int eventfd) override {
    vectors_[vector] = eventfd >= 0 ? Fd(::dup(eventfd)) : Fd();
    return bus_->set_vector_eventfd(vector, eventfd);
  }
  Result<> disable_vectors() override {
    for (Fd& vector : vectors_) vector.reset();
    return bus_->disable_vectors();
  }
  Result<> reset() override { return bus_->reset(); }

 protected:
  // The bus for one access of the guest.
  virtual driver::VfioUserBus& access() { return *bus_; }

  std::unique_ptr<driver::VfioUserBus> bus_;

 private:
  std::vector<Map> maps_;
  std::array<Fd, abi::kVectorCount> vectors_;
};

}  // namespace pvrdma::test
