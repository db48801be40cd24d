#include "device/shared_region.h"

#include <algorithm>
#include <cstddef>
#include <fmt/core.h>
#include <span>

#include "abi/registers.h"
#include "guestmem/copy.h"

namespace pvrdma::device {
namespace {

// Linux allocates a whole page, but the interface does not promise that.
constexpr std::uint64_t kRegionAlignment = 8;

bool is_page(const guestmem::AddressSpace& memory, guestmem::GuestPhys address, guestmem::Access access) {
  return address.value % abi::kPageBytes == 0 &&
         memory.translate(address, abi::kPageBytes, access) != nullptr;
}

bool read_ring(const guestmem::AddressSpace& memory, const abi::RingPages& ring, guestmem::PageList& pages) {
  if (ring.num_pages < kEventRingPagesMin || ring.num_pages > kEventRingPagesMax) return false;
  const auto status = guestmem::read_page_directory(memory, guestmem::GuestPhys{ring.pdir_dma},
                                                    ring.num_pages, kEventRingPagesMax, pages);
  return status == guestmem::DirectoryStatus::kOk;
}

bool is_empty(const abi::DeviceSharedRegion& region) {
  return std::ranges::all_of(std::as_bytes(std::span(&region, 1)),
                             [](std::byte each) { return each == std::byte{}; });
}

}  // namespace

const char* describe(RegionDefect defect) {
  switch (defect) {
    case RegionDefect::kNotShared:
      return kNoSharedMemory;
    case RegionDefect::kNoBusMaster:
      return "the driver has not enabled bus mastering (PCI command register, bit 2)";
    case RegionDefect::kEmpty:
      return "it is empty, as if the VMM had a private copy of the guest's memory: "
             "memory-backend-memfd,share=on";
    case RegionDefect::kNotMemory:
      return "its address is unaligned or not guest memory";
    case RegionDefect::kDriverVersion:
      return "the driver version is not supported";
    case RegionDefect::kCommandSlot:
      return "the command slot is not a page of guest memory";
    case RegionDefect::kResponseSlot:
      return "the response slot is not a page of guest memory";
    case RegionDefect::kAsyncRing:
      return "the asynchronous event ring has a bad page count or address";
    case RegionDefect::kNotificationRing:
      return "the CQ notification ring has a bad page count or address";
  }
  return "";
}

tl::expected<SharedRegion, RegionDefect> load_region(const guestmem::AddressSpace& memory,
                                                     guestmem::GuestPhys address, PageFrames frames,
                                                     const abi::Caps& caps) {
  const auto refuse = [](RegionDefect defect) { return tl::unexpected<RegionDefect>(defect); };
  if (memory.ram_bytes() == 0 || memory.is_private(address)) return refuse(RegionDefect::kNotShared);
  if (address.value % kRegionAlignment != 0) return refuse(RegionDefect::kNotMemory);
  const auto raw = guestmem::read_object<abi::DeviceSharedRegion>(memory, address);
  if (!raw) return refuse(RegionDefect::kNotMemory);
  if (is_empty(*raw)) return refuse(RegionDefect::kEmpty);
  if (raw->driver_version < kOldestDriver) return refuse(RegionDefect::kDriverVersion);

  SharedRegion region;
  region.driver_version = raw->driver_version;
  region.guest_os = raw->gos_info;
  region.command_slot = guestmem::GuestPhys{raw->cmd_slot_dma};
  region.response_slot = guestmem::GuestPhys{raw->resp_slot_dma};
  if (!is_page(memory, region.command_slot, guestmem::Access::kRead))
    return refuse(RegionDefect::kCommandSlot);
  if (!is_page(memory, region.response_slot, guestmem::Access::kWrite))
    return refuse(RegionDefect::kResponseSlot);
  region.uar_page_frame =
      frames == PageFrames::k64Bit ? raw->uar_pfn : static_cast<std::uint32_t>(raw->uar_pfn);
  if (!read_ring(memory, raw->async_ring_pages, region.async_pages)) return refuse(RegionDefect::kAsyncRing);
  if (!read_ring(memory, raw->cq_ring_pages, region.notification_pages))
    return refuse(RegionDefect::kNotificationRing);

  const guestmem::GuestPhys caps_address{address.value + offsetof(abi::DeviceSharedRegion, caps)};
  if (!guestmem::write_object(memory, caps_address, caps)) return refuse(RegionDefect::kNotMemory);
  return region;
}

std::string describe_guest_os(std::uint32_t gos_info) {
  const std::uint32_t word = gos_info & 0x3;
  const std::uint32_t system = gos_info >> 2 & 0xf;
  const std::uint32_t version = gos_info >> 6 & 0xffff;
  return fmt::format("{} {}, version {}",
                     word == 2   ? "64-bit"
                     : word == 1 ? "32-bit"
                                 : "unknown width",
                     system == 1 ? "Linux" : "unknown system", version);
}

}  // namespace pvrdma::device
