// GsiPort: queue pair 1 of the adapter, by which its connection manager exchanges MADs with others, as a
// kernel's does.
//
// Thread: one at a time; blocks until the device has answered. Datagrams may be lost: nothing is repeated
// here.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "abi/endian.h"
#include "cm/manager.h"
#include "driver/device.h"
#include "driver/memory_region.h"
#include "driver/queue_pair.h"

namespace pvrdma::standin {

class GsiPort {
 public:
  // `device` is borrowed and outlives the port. `gids` is the port's table.
  static Result<std::unique_ptr<GsiPort>> create(driver::Device& device, std::vector<abi::Gid> gids);

  // Gives the datagram to the device; `next_hop` is the MAC of its receiver or router. kNoRoom: too many wait
  // for it; after take() there may be room. Errors: those of the connection to the device.
  enum class Sent : std::uint8_t { kYes, kNoRoom };
  Result<Sent> send(const cm::Datagram& datagram, const abi::Mac& next_hop);

  // Takes what has arrived since the last call, and asks for a notification of the next arrival or of the
  // next datagram that has left.
  Result<std::vector<cm::Datagram>> take();

 private:
  GsiPort(driver::Device& device, std::vector<abi::Gid> gids) : device_(device), gids_(std::move(gids)) {}
  Result<> start();
  Result<> post_receive(std::uint32_t slot);
  Result<std::size_t> take_some(std::vector<cm::Datagram>& taken);
  cm::Datagram datagram_in(std::uint32_t slot, const driver::WorkCompletion& done) const;

  driver::Device& device_;
  std::vector<abi::Gid> gids_;
  std::unique_ptr<driver::ProtectionDomain> pd_;
  std::unique_ptr<driver::Buffer> buffer_;  // slots of receives, then of sends
  std::unique_ptr<driver::MemoryRegion> region_;
  std::unique_ptr<driver::CompletionQueue> cq_;
  std::unique_ptr<driver::QueuePair> qp_;
  std::vector<std::uint32_t> free_sends_;
};

}  // namespace pvrdma::standin
