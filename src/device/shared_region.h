// SharedRegion: the information that the guest gives in its device shared region (DSR), copied once and
// checked. Reference 2, 9.3.
//
// The device uses only this private copy, because the guest may overwrite the region afterwards. Capabilities
// are written once, after all checks have passed. Thread: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "abi/registers.h"
#include "abi/shared_region.h"
#include "device/device_version.h"
#include "guestmem/address_space.h"
#include "guestmem/page_directory.h"

namespace pvrdma::device {

// Why a region is refused. The guest causes it, so it is not an Error.
enum class RegionDefect : std::uint8_t {
  kNotShared,         // the client has not shared the memory of the region, or shares nothing
  kNoBusMaster,       // the guest does not let the device access its memory
  kNotMemory,         // the region is unaligned or not guest memory
  kEmpty,             // all its bytes are zero, as if the guest had written to another copy of its memory
  kDriverVersion,     // older than any driver with this layout
  kCommandSlot,       // not a page of readable guest memory
  kResponseSlot,      // not a page of writable guest memory
  kAsyncRing,         // page count out of range, or its directory or pages are not guest memory
  kNotificationRing,  // as kAsyncRing
};
const char* describe(RegionDefect defect);
inline constexpr const char* kNoSharedMemory = "the VMM shares no memory: memory-backend-memfd,share=on";

struct SharedRegion {
  std::uint32_t driver_version = 0;
  std::uint32_t guest_os = 0;  // gos_info unchanged, see describe_guest_os()
  guestmem::GuestPhys command_slot;
  guestmem::GuestPhys response_slot;
  std::uint64_t uar_page_frame = 0;  // of the kernel's UAR page
  guestmem::PageList async_pages;    // page 0 has the ring's state
  guestmem::PageList notification_pages;
};

enum class PageFrames : bool { k32Bit, k64Bit };  // width of uar_pfn, by device version
inline PageFrames page_frames_of(HardwareVersion version) {
  return has_wide_page_frames(version) ? PageFrames::k64Bit : PageFrames::k32Bit;
}

// The number of pages of an event ring, including its state page. Linux uses 4.
inline constexpr std::uint32_t kEventRingPagesMin = 2;
inline constexpr std::uint32_t kEventRingPagesMax = 16;
inline constexpr std::uint32_t kOldestDriver = abi::kVersionRocev1;

// Reads and checks the region at `address`, then writes `caps` into it. After a fault nothing was written.
tl::expected<SharedRegion, RegionDefect> load_region(const guestmem::AddressSpace& memory,
                                                     guestmem::GuestPhys address, PageFrames frames,
                                                     const abi::Caps& caps);

struct SavedRegion;
SavedRegion save(const SharedRegion& region);
// The pages need not be RAM yet. Empty: load_region() would have refused the values.
std::optional<SharedRegion> restore(const SavedRegion& saved, PageFrames frames);

// "64-bit Linux, version 0", for logs and views.
std::string describe_guest_os(std::uint32_t gos_info);

}  // namespace pvrdma::device
