// InProcessBus: a driver's Bus that calls a device in the same thread, with no socket between: for seeded
// simulation, benches and anything that must be repeatable. It keeps the promises of vfio_user::Server to its
// Handler: checked regions and sizes, one call at a time, connected() first and disconnected() last.
//
// It may hand the guest over to another device, as a move does.
//
// Thread: the device's. No call allocates but region_bytes(), dma_map() and the error cases.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "abi/registers.h"
#include "base/fd.h"
#include "driver/bus.h"
#include "driver/mapped_areas.h"
#include "vfio_user/handler.h"

namespace pvrdma::test {

// Is told when a call is about to reach the device, and when it has returned. Thread: the device's.
class CallWatcher {
 public:
  virtual ~CallWatcher() = default;
  virtual void before_call() = 0;
  virtual void after_call() = 0;
};

class InProcessBus final : public driver::Bus {
 public:
  // Connects and maps what the device lets be mapped of its doorbells; `device` is borrowed, has no other
  // client, and outlives the bus.
  explicit InProcessBus(vfio_user::Handler& device, driver::AreaUse doorbells = driver::AreaUse::kMapped);
  ~InProcessBus() override;  // disconnects
  InProcessBus(const InProcessBus&) = delete;
  InProcessBus& operator=(const InProcessBus&) = delete;

  // The VM dies now: the device sees its client go, and every later call fails with ENOTCONN.
  void kill();
  bool alive() const { return alive_; }

  // Of region writes and resets; borrowed, null: nobody.
  void watch(CallWatcher* watcher) { watcher_ = watcher; }
  // Called before each of the driver's calls; it may move the guest.
  void before_each_call(std::function<void()> call) { before_call_ = std::move(call); }

  // The guest moves: leave() takes the VMM from its device, which hears nothing of it; join() connects it to
  // another one, with the configuration space, DMA maps and eventfds that it had.
  void leave();
  void join(vfio_user::Handler& device);

  // Region writes so far that the device was told of: doorbells and registers.
  std::uint64_t writes() const { return writes_; }

  Result<std::uint32_t> region_read32(driver::Region region, std::uint64_t offset) override;
  Result<> region_write32(driver::Region region, std::uint64_t offset, std::uint32_t value) override;
  Result<> region_read(driver::Region region, std::uint64_t offset, std::span<std::byte> out) override;
  Result<> region_write(driver::Region region, std::uint64_t offset,
                        std::span<const std::byte> data) override;
  Result<std::uint64_t> region_bytes(driver::Region region) override;
  Result<> dma_map(std::uint64_t iova, std::uint64_t bytes, int fd, std::uint64_t fd_offset) override;
  Result<> dma_unmap(std::uint64_t iova, std::uint64_t bytes) override;
  Result<> set_vector_eventfd(std::uint32_t vector, int eventfd) override;
  Result<> disable_vectors() override;
  Result<> reset() override;

 private:
  static constexpr std::size_t kConfigBytes = 256;

  struct DmaMap {
    vfio_user::DmaMapRequest request;
    Fd fd;
  };

  Result<> begin_call();
  Result<> check(driver::Region region, std::uint64_t offset, std::size_t bytes);
  void connect();
  bool is_mapped(driver::Region region) const {
    return region == driver::Region::kUar && doorbells_ != nullptr;
  }

  vfio_user::Handler* device_;  // borrowed; null between leave() and join()
  const driver::AreaUse doorbell_use_;
  std::function<void()> before_call_;
  std::array<std::byte, kConfigBytes> config_{};  // while it moves
  std::vector<DmaMap> maps_;
  std::array<Fd, abi::kVectorCount> eventfds_;
  std::array<std::uint64_t, 9> region_bytes_{};
  std::unique_ptr<driver::MappedAreas> doorbells_;  // of kUar; null: each access is a call
  CallWatcher* watcher_ = nullptr;
  std::uint64_t writes_ = 0;
  bool alive_ = true;
};

}  // namespace pvrdma::test
