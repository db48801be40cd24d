// SharedRegion: what a driver tells the device about itself at the start: the DSR, the two command slots and
// the two event rings. docs/device.md 2, 4.3. Thread: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "abi/shared_region.h"
#include "driver/guest_ram.h"
#include "driver/page_directory.h"
#include "driver/ring.h"

namespace pvrdma::driver {

class SharedRegion {
 public:
  // Allocates everything and fills the DSR as Linux does for a device of `device_version` whose UAR page 0
  // has the page frame number `uar_pfn`. `ram` is borrowed and outlives it.
  static Result<std::unique_ptr<SharedRegion>> create(GuestRam& ram, std::uint32_t device_version,
                                                      std::uint64_t uar_pfn);

  // The address for DSRLOW and DSRHIGH.
  GuestPhys gpa() const { return dsr_->gpa(); }

  // The DSR in guest RAM, for changes before the driver announces it.
  abi::DeviceSharedRegion& raw() { return *reinterpret_cast<abi::DeviceSharedRegion*>(dsr_->data()); }

  // A copy of the capabilities that the device wrote.
  abi::Caps caps() const;

  const Buffer& command_slot() const { return *command_slot_; }
  const Buffer& response_slot() const { return *response_slot_; }
  const ConsumerRing& async_events() const { return async_.ring; }
  const ConsumerRing& notifications() const { return notifications_.ring; }

  static constexpr std::uint32_t kRingPages = 4;  // one page of state, three of elements, as in Linux

 private:
  struct EventRing {
    std::unique_ptr<Buffer> pages;
    std::unique_ptr<PageDirectory> directory;
    ConsumerRing ring;
  };
  static Result<EventRing> make_ring(GuestRam& ram, std::uint32_t element_bytes);

  SharedRegion(std::unique_ptr<Buffer> dsr, std::unique_ptr<Buffer> command, std::unique_ptr<Buffer> response,
               EventRing async, EventRing notifications)
      : dsr_(std::move(dsr)),
        command_slot_(std::move(command)),
        response_slot_(std::move(response)),
        async_(std::move(async)),
        notifications_(std::move(notifications)) {}

  std::unique_ptr<Buffer> dsr_;
  std::unique_ptr<Buffer> command_slot_;
  std::unique_ptr<Buffer> response_slot_;
  EventRing async_;
  EventRing notifications_;
};

}  // namespace pvrdma::driver
