// What QEMU does not bring along of a vfio-user device when a VM goes from one QEMU to another: its PCI
// configuration space. It is written from outside, by port accesses through the monitor of a VM that stands.
//
// Thread: as Monitor. Source: QEMU hmp-commands.hx (i, o), PCI Local Bus configuration mechanism 1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/result.h"
#include "vmm/monitor.h"

namespace pvrdma::vmm {

inline constexpr std::size_t kMsixTableBytes = 48;  // three vectors

struct PciImage {
  std::array<std::uint8_t, 256> config{};
  bool has_msix_table = false;
  std::array<std::uint8_t, kMsixTableBytes> msix_table{};  // 0 unless there is one
  friend bool operator==(const PciImage&, const PciImage&) = default;
};

struct PciPlace {
  std::uint8_t bus = 0;
  std::uint8_t slot = 0;      // below 32
  std::uint8_t function = 0;  // below 8
  friend bool operator==(const PciPlace&, const PciPlace&) = default;
};

// Where the VM has its PVRDMA device. Errors: ENODEV: none; ENOTUNIQ: several, and which is meant cannot be
// told; as Monitor::execute().
Result<PciPlace> find_device(Monitor& monitor);

// Takes its interrupt vectors from the VMM, which forgets them: cpr-transfer gives the new QEMU the same
// eventfds, and what a signal wakes first takes it. restore() gives them back. Errors: as restore()'s.
Result<void> disable_vectors(Monitor& monitor, PciPlace place);

// Writes what is the guest's of the image. `write_table` is called when the VMM has BAR 0 mapped and before
// it is to use the table, unless there is none. Errors: EBUSY: the VM runs; EREMOTEIO: it refuses, in its own
// words; as Monitor::execute(), and write_table's.
Result<void> restore(Monitor& monitor, PciPlace place, const PciImage& image,
                     const std::function<Result<void>()>& write_table);

}  // namespace pvrdma::vmm
