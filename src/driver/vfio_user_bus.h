// VfioUserBus: the Bus of an adapter that a daemon serves on a vfio-user socket. Thread: one thread at a
// time; blocks.
#pragma once

#include <memory>
#include <string>

#include "driver/bus.h"
#include "driver/mapped_areas.h"
#include "vfio_user/client.h"

namespace pvrdma::driver {

class VfioUserBus final : public Bus {
 public:
  // Connects to the socket at `path` and maps the doorbells as far as the device allows it. Errors: see
  // vfio_user::Client::connect() and MappedAreas::create().
  static Result<std::unique_ptr<VfioUserBus>> connect(
      const std::string& path, Duration reply_timeout = vfio_user::Client::kDefaultReplyTimeout,
      AreaUse doorbells = AreaUse::kMapped);

  // Makes a bus of a connected client.
  static Result<std::unique_ptr<VfioUserBus>> create(std::unique_ptr<vfio_user::Client> client,
                                                     AreaUse doorbells = AreaUse::kMapped);

  // The connection's socket, for a caller that waits for the daemon's end; -1: the connection has ended.
  int socket_fd() const { return client_ ? client_->socket_fd() : -1; }

  // Ends the connection, as the death of this process would. Every later call fails with ENOTCONN.
  void disconnect() {
    client_.reset();
    doorbells_.reset();
  }

  Result<std::uint32_t> region_read32(Region region, std::uint64_t offset) override;
  Result<> region_write32(Region region, std::uint64_t offset, std::uint32_t value) override;
  Result<> region_read(Region region, std::uint64_t offset, std::span<std::byte> out) override;
  Result<> region_write(Region region, std::uint64_t offset, std::span<const std::byte> data) override;
  Result<std::uint64_t> region_bytes(Region region) override;
  Result<> dma_map(std::uint64_t iova, std::uint64_t bytes, int fd, std::uint64_t fd_offset) override;
  Result<> dma_unmap(std::uint64_t iova, std::uint64_t bytes) override;
  Result<> set_vector_eventfd(std::uint32_t vector, int eventfd) override;
  Result<> disable_vectors() override;
  Result<> reset() override;

 private:
  explicit VfioUserBus(std::unique_ptr<vfio_user::Client> client) : client_(std::move(client)) {}
  Result<> map_doorbells();
  bool is_mapped(Region region) const { return region == Region::kUar && doorbells_ != nullptr; }

  std::unique_ptr<vfio_user::Client> client_;
  std::unique_ptr<MappedAreas> doorbells_;  // areas of kUar; null: each access is a message
};

}  // namespace pvrdma::driver
