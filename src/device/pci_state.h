// PciState: what a VMM may have set of an adapter's PCI function: its configuration space, and the MSI-X
// table, which the VMM keeps by itself and whoever saves has to ask it for.
//
// It is the VMM's to restore: the one of the saved adapter goes on with its own, another one writes it. So
// loading an adapter applies nothing of it; who loads compares. Thread: values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "abi/registers.h"
#include "device/pci_config.h"

namespace pvrdma::device {

inline constexpr std::size_t kMsixEntryBytes = 16;  // address, upper address, data, vector control
using MsixTable = std::array<std::uint8_t, abi::kVectorCount * kMsixEntryBytes>;

struct PciState {
  std::array<std::uint8_t, kPciConfigBytes> config{};
  bool has_msix_table = false;
  MsixTable msix_table{};  // 0 unless there is one
  friend bool operator==(const PciState&, const PciState&) = default;
};

// Where the VMM has the MSI-X table: a guest-physical address. Nothing while the guest has memory decoding or
// bus mastering off: the VMM then lets nobody reach it.
std::optional<std::uint64_t> msix_table_address(const PciState& state);

// How many vectors the guest has enabled and not masked: its VMM has assigned an eventfd to each. 0 without
// the table.
std::uint32_t vectors_open(const PciState& state);

// The first difference, named as state::Printer does; nothing when there is none.
std::optional<std::string> difference(const PciState& here, const PciState& saved);

}  // namespace pvrdma::device
