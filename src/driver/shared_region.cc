#include "driver/shared_region.h"

#include <cstring>

#include "abi/registers.h"
#include "abi/ring.h"

namespace pvrdma::driver {
namespace {

constexpr std::uint32_t kDriverVersion = 20;  // Linux 6.12's
constexpr std::uint32_t kGosLinux64 = 0x46;   // what Linux on x86-64 reports

}  // namespace

Result<SharedRegion::EventRing> SharedRegion::make_ring(GuestRam& ram, std::uint32_t element_bytes) {
  auto pages = ram.allocate(kRingPages * abi::kPageBytes);
  if (!pages) return Failure(std::move(pages.error()));
  auto directory = PageDirectory::of(ram, (*pages)->pages());
  if (!directory) return Failure(std::move(directory.error()));
  std::byte* base = (*pages)->data();
  const auto count = static_cast<std::uint32_t>((kRingPages - 1) * abi::kPageBytes / element_bytes);
  const ConsumerRing ring(RingState(base + offsetof(abi::RingState, rx)), base + abi::kPageBytes, count,
                          element_bytes);
  return EventRing{std::move(*pages), std::move(*directory), ring};
}

Result<std::unique_ptr<SharedRegion>> SharedRegion::create(GuestRam& ram, std::uint32_t device_version,
                                                           std::uint64_t uar_pfn) {
  auto dsr = ram.allocate(sizeof(abi::DeviceSharedRegion), Placement::kContiguous);
  auto command = ram.allocate(abi::kPageBytes);
  auto response = ram.allocate(abi::kPageBytes);
  auto async = make_ring(ram, sizeof(abi::AsyncEvent));
  auto notifications = make_ring(ram, sizeof(abi::Notification));
  if (!dsr) return Failure(std::move(dsr.error()));
  if (!command) return Failure(std::move(command.error()));
  if (!response) return Failure(std::move(response.error()));
  if (!async) return Failure(std::move(async.error()));
  if (!notifications) return Failure(std::move(notifications.error()));

  std::unique_ptr<SharedRegion> made(new SharedRegion(std::move(*dsr), std::move(*command),
                                                      std::move(*response), std::move(*async),
                                                      std::move(*notifications)));
  abi::DeviceSharedRegion& region = made->raw();
  region.driver_version = kDriverVersion;
  region.gos_info = kGosLinux64;
  region.cmd_slot_dma = made->command_slot_->gpa().value;
  region.resp_slot_dma = made->response_slot_->gpa().value;
  region.async_ring_pages = {.num_pages = kRingPages, .pdir_dma = made->async_.directory->gpa().value};
  region.cq_ring_pages = {.num_pages = kRingPages, .pdir_dma = made->notifications_.directory->gpa().value};
  region.uar_pfn = device_version < abi::kVersionPpn64 ? static_cast<std::uint32_t>(uar_pfn) : uar_pfn;
  return made;
}

abi::Caps SharedRegion::caps() const {
  abi::Caps copy;
  std::memcpy(&copy, dsr_->data() + offsetof(abi::DeviceSharedRegion, caps), sizeof(copy));
  return copy;
}

}  // namespace pvrdma::driver
