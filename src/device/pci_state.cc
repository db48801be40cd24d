#include "device/pci_state.h"

#include <cstring>

#include "device/describe.h"
#include "device/differing.h"

namespace pvrdma::device {
namespace {

constexpr std::uint8_t kMemoryAndMaster = 0x06;
constexpr std::uint32_t kBarAddress = ~0xfu;
constexpr std::size_t kMsixControlHigh = kPciMsix + 3;
constexpr std::uint8_t kMsixEnableAndMask = 0xc0;
constexpr std::uint8_t kMsixEnabled = 0x80;
constexpr std::size_t kVectorControl = 12;  // offset in the table's entry
constexpr std::uint8_t kVectorMasked = 0x01;

}  // namespace

std::optional<std::uint64_t> msix_table_address(const PciState& state) {
  if ((state.config[kPciCommand] & kMemoryAndMaster) != kMemoryAndMaster) return std::nullopt;
  std::uint32_t bar = 0;
  std::memcpy(&bar, state.config.data() + kPciBar0, sizeof(bar));
  return (bar & kBarAddress) + std::uint64_t{abi::kMsixTableOffset};
}

std::uint32_t vectors_open(const PciState& state) {
  if (!state.has_msix_table || (state.config[kMsixControlHigh] & kMsixEnableAndMask) != kMsixEnabled)
    return 0;
  std::uint32_t open = 0;
  for (std::size_t entry = 0; entry < state.msix_table.size(); entry += kMsixEntryBytes)
    open += (state.msix_table[entry + kVectorControl] & kVectorMasked) == 0;
  return open;
}

std::optional<std::string> difference(const PciState& here, const PciState& saved) {
  return differing(here, saved);
}

}  // namespace pvrdma::device
