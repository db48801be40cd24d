// The PCI configuration space of a vfio-user device. QEMU does not transfer it when a VM moves to another
// QEMU, so it is restored from outside, by port accesses through the monitor of a stopped VM.
//
// Thread: as Monitor. Source: QEMU hmp-commands.hx (i, o), PCI Local Bus configuration mechanism 1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/result.h"
#include "vmm/monitor.h"

namespace pvrdma::vmm {

inline constexpr std::size_t kMsixTableBytes = 48;  // three vectors

struct PciImage {
  std::array<std::uint8_t, 256> config{};
  std::optional<std::array<std::uint8_t, kMsixTableBytes>> msix_table;
  friend bool operator==(const PciImage&, const PciImage&) = default;
};

struct PciPlace {
  std::uint8_t bus = 0;
  std::uint8_t slot = 0;      // below 32
  std::uint8_t function = 0;  // below 8
  friend bool operator==(const PciPlace&, const PciPlace&) = default;
};

// Where the VM has its PVRDMA device. Errors: ENODEV (no such device), ENOTUNIQ (several), or those of
// Monitor::execute().
Result<PciPlace> find_device(Monitor& monitor);

// Makes the VMM release the device's interrupt vectors. This is needed because cpr-transfer gives the same
// eventfds to the new QEMU, and whichever QEMU wakes first takes the signal. restore() returns them. Errors:
// as for restore().
Result<void> disable_vectors(Monitor& monitor, PciPlace place);

// Writes the guest's part of the image. `write_table` (optional) is called after the VMM has mapped BAR 0 and
// before it uses the MSI-X table. Errors: kConflict (the VM runs), EREMOTEIO (QEMU refuses, in its own
// words), EBUSY (QEMU has set the address port meanwhile, because it loads its devices: what was written may
// be in another device's register), those of Monitor::execute() and of write_table.
Result<void> restore(Monitor& monitor, PciPlace place, const PciImage& image,
                     const std::function<Result<void>()>& write_table);

}  // namespace pvrdma::vmm
