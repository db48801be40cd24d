// InProcessBus: a driver's Bus that calls a device in the same thread, without a socket between them. It is
// for seeded simulation, benches, and everything that must be repeatable. It keeps the promises of
// vfio_user::Server to its Handler: checked regions and sizes, one call at a time, connected() first and
// disconnected() last.
//
// It can move the guest to another device, as a VM's move does.
//
// Thread: the device's. Only region_bytes(), dma_map() and error cases allocate.
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

// Is told before a call reaches the device, and after it has returned. Thread: the device's.
class CallWatcher {
 public:
  virtual ~CallWatcher() = default;
  virtual void before_call() = 0;
  virtual void after_call() = 0;
};

class InProcessBus final : public driver::Bus {
 public:
  // Connects, and maps the doorbells that the device allows to map. `device` is borrowed, has no other
  // client, and outlives the bus.
  explicit InProcessBus(vfio_user::Handler& device, driver::AreaUse doorbells = driver::AreaUse::kMapped);
  ~InProcessBus() override;  // disconnects
  InProcessBus(const InProcessBus&) = delete;
  InProcessBus& operator=(const InProcessBus&) = delete;

  // The VM dies now: the device loses its client, and every later call fails with ENOTCONN.
  void kill();
  bool alive() const { return alive_; }

  // Sets the watcher of region writes and resets. Borrowed; null: no watcher.
  void watch(CallWatcher* watcher) { watcher_ = watcher; }
  // `call` runs before each of the driver's calls, and may move the guest.
  void before_each_call(std::function<void()> call) { before_call_ = std::move(call); }

  // Moves the guest: leave() takes the VMM from its device, which is not told. join() connects it to another
  // device, with its configuration space, DMA maps and eventfds.
  // go_back() instead of join(): to the device that it has left, which still has all of that.
  void leave();
  void join(vfio_user::Handler& device);
  void go_back(vfio_user::Handler& device);

  // The number of region writes so far that were calls to the device: doorbells and registers.
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
  void map_doorbells();
  bool is_mapped(driver::Region region) const {
    return region == driver::Region::kUar && doorbells_ != nullptr;
  }

  vfio_user::Handler* device_;  // borrowed; null between leave() and join()
  const driver::AreaUse doorbell_use_;
  std::function<void()> before_call_;
  std::array<std::byte, kConfigBytes> config_{};  // while the guest moves
  std::vector<DmaMap> maps_;
  std::array<Fd, abi::kVectorCount> eventfds_;
  std::array<std::uint64_t, 9> region_bytes_{};
  std::unique_ptr<driver::MappedAreas> doorbells_;  // those of kUar; null: each access is a call
  CallWatcher* watcher_ = nullptr;
  std::uint64_t writes_ = 0;
  bool alive_ = true;
};

}  // namespace pvrdma::test
