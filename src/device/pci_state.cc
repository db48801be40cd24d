#include "device/pci_state.h"

#include <cstring>

#include "device/describe.h"
#include "device/differing.h"

namespace pvrdma::device {
namespace {

constexpr std::uint8_t kMemoryAndMaster = 0x06;
constexpr std::uint32_t kBarAddress = ~0xfu;

}  // namespace

std::optional<std::uint64_t> msix_table_address(const PciState& state) {
  if ((state.config[kPciCommand] & kMemoryAndMaster) != kMemoryAndMaster) return std::nullopt;
  std::uint32_t bar = 0;
  std::memcpy(&bar, state.config.data() + kPciBar0, sizeof(bar));
  return (bar & kBarAddress) + std::uint64_t{abi::kMsixTableOffset};
}

std::optional<std::string> difference(const PciState& here, const PciState& saved) {
  return differing(here, saved);
}

}  // namespace pvrdma::device
