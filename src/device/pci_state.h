// PciState: the state of an adapter's PCI function that a VMM may have set: its configuration space and the
// MSI-X table. The VMM keeps the table, so whoever saves the adapter has to ask the VMM for it.
//
// The VMM restores this state: the same VMM still has it, and another VMM writes it. So loading an adapter
// does not apply it, and the caller compares it. Thread: values.
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
  MsixTable msix_table{};  // 0 if the table is unknown
  friend bool operator==(const PciState&, const PciState&) = default;
};

// The guest-physical address of the VMM's MSI-X table. Empty if the guest has switched off memory decoding or
// bus mastering, because the VMM then makes the table inaccessible.
std::optional<std::uint64_t> msix_table_address(const PciState& state);

// How many vectors the guest has enabled and not masked: the VMM has assigned an eventfd to each. 0 without
// the table.
std::uint32_t vectors_open(const PciState& state);

// The first difference, with the name that state::Printer uses; empty if there is none.
std::optional<std::string> difference(const PciState& here, const PciState& saved);

}  // namespace pvrdma::device
