#include "device/pci_config.h"

#include <bit>
#include <cstring>

#include "abi/registers.h"
#include "base/check.h"

namespace pvrdma::device {
namespace {

constexpr std::size_t kVendor = 0x00;
constexpr std::size_t kDevice = 0x02;
constexpr std::size_t kStatus = 0x06;
constexpr std::size_t kRevision = 0x08;
constexpr std::size_t kClass = 0x0a;  // subclass and class; the programming interface before them is 0
constexpr std::size_t kCacheLine = 0x0c;
constexpr std::size_t kLatency = 0x0d;
constexpr std::size_t kBar1 = 0x14;
constexpr std::size_t kBar2 = 0x18;  // its upper half is at 0x1c
constexpr std::size_t kSubsystemVendor = 0x2c;
constexpr std::size_t kSubsystem = 0x2e;
constexpr std::size_t kCapabilities = 0x34;
constexpr std::size_t kInterruptLine = 0x3c;

constexpr std::uint64_t kCommandWritable =
    0x0546;  // memory, bus master, parity, SERR, INTx disable; no I/O space
constexpr std::uint64_t kStatusCapabilityList = 1u << 4;
constexpr std::uint64_t kBarMemory64 = 4;
constexpr std::uint64_t kMsixId = 0x11;
constexpr std::uint64_t kMsixControlWritable = 0xc000;  // enable, function mask

constexpr std::uint64_t bar_mask(std::uint64_t size_bytes) {
  return ~(size_bytes - 1);
}

}  // namespace

PciConfig::PciConfig(std::uint64_t uar_bar_bytes) {
  PVRDMA_CHECK(std::has_single_bit(uar_bar_bytes) && uar_bar_bytes >= abi::kPageBytes,
               "no size a BAR can have");
  set(kVendor, abi::kPciVendorId, 2);
  set(kDevice, abi::kPciDeviceId, 2);
  allow(kPciCommand, kCommandWritable, 2);
  set(kStatus, kStatusCapabilityList, 2);
  set(kRevision, 1, 1);
  set(kClass, abi::kPciClassNetworkOther, 2);
  allow(kCacheLine, 0xff, 1);
  allow(kLatency, 0xff, 1);
  allow(kPciBar0, bar_mask(abi::kMsixBarBytes), 4);
  allow(kBar1, bar_mask(abi::kRegisterBarBytes), 4);
  set(kBar2, kBarMemory64, 8);
  allow(kBar2, bar_mask(uar_bar_bytes), 8);
  set(kSubsystemVendor, abi::kPciVendorId, 2);
  set(kSubsystem, abi::kPciDeviceId, 2);
  set(kCapabilities, kPciMsix, 1);
  allow(kInterruptLine, 0xff, 1);
  set(kPciMsix, kMsixId, 1);
  set(kPciMsix + 2, abi::kVectorCount - 1, 2);
  allow(kPciMsix + 2, kMsixControlWritable, 2);
  set(kPciMsix + 4, abi::kMsixTableOffset | static_cast<std::uint32_t>(abi::Bar::kMsix), 4);
  set(kPciMsix + 8, abi::kMsixPbaOffset | static_cast<std::uint32_t>(abi::Bar::kMsix), 4);
  power_on_ = bytes_;
}

bool PciConfig::read(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > kPciConfigBytes || out.size() > kPciConfigBytes - offset) return false;
  std::memcpy(out.data(), bytes_.data() + offset, out.size());
  return true;
}

bool PciConfig::write(std::uint64_t offset, std::span<const std::byte> data) {
  if (offset > kPciConfigBytes || data.size() > kPciConfigBytes - offset) return false;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const std::byte mask = writable_[offset + i];
    std::byte& byte = bytes_[offset + i];
    byte = (byte & ~mask) | (data[i] & mask);
  }
  return true;
}

void PciConfig::set(std::size_t offset, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) bytes_[offset + i] = static_cast<std::byte>(value >> (8 * i));
}

void PciConfig::allow(std::size_t offset, std::uint64_t mask, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) writable_[offset + i] = static_cast<std::byte>(mask >> (8 * i));
}

}  // namespace pvrdma::device
