// HardwareVersion: the virtual hardware versions at which the PVRDMA adapter changes, and the properties that
// device, configuration, model and API derive from them. Properties that only the guest's driver sees are in
// device/device_version.h.
//
// | the VM's hardware version | its adapter is that of | RoCE     | SRQ |
// |---------------------------|------------------------|----------|-----|
// | 7 to 12, 16               | none                   |          |     |
// | 13 (ESXi 6.5)             | 13                     | v1       | no  |
// | 14, 15 (ESXi 6.7)         | 14                     | v1 or v2 | yes |
// | 17 (vSphere 7.0)          | 17                     | v1 or v2 | yes |
// | 18 to 21 (7.0 U1 and on)  | 18                     | v1 or v2 | yes |
//
// Thread: values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "vocabulary/roce_version.h"

namespace pvrdma {

enum class HardwareVersion : std::uint8_t { k13 = 13, k14 = 14, k17 = 17, k18 = 18 };

inline constexpr std::array kHardwareVersions{HardwareVersion::k13, HardwareVersion::k14,
                                              HardwareVersion::k17, HardwareVersion::k18};
inline constexpr HardwareVersion kFirstWithAdapter = HardwareVersion::k13;
inline constexpr HardwareVersion kFirstWithRoceV2 = HardwareVersion::k14;
inline constexpr HardwareVersion kFirstWithSrq = HardwareVersion::k14;
inline constexpr HardwareVersion kFirstWithNatives = HardwareVersion::k18;

// The range of hardware versions of VMs, with or without adapters.
inline constexpr std::uint32_t kVmHardwareVersionMin = 7;
inline constexpr std::uint32_t kVmHardwareVersionMax = 21;

constexpr std::uint32_t number_of(HardwareVersion version) {
  return static_cast<std::uint32_t>(version);
}

// Nullopt: the adapter does not change at this number.
constexpr std::optional<HardwareVersion> parse_hardware_version(std::int64_t number) {
  for (const HardwareVersion version : kHardwareVersions) {
    if (number_of(version) == number) return version;
  }
  return std::nullopt;
}

// The adapter of a VM with that hardware version. Nullopt: VMs of that version have no adapter.
constexpr std::optional<HardwareVersion> adapter_of(std::uint32_t vm_hardware_version) {
  constexpr std::uint32_t kOfNoEsxi = 16;
  if (vm_hardware_version == kOfNoEsxi || vm_hardware_version > kVmHardwareVersionMax) return std::nullopt;
  std::optional<HardwareVersion> newest;
  for (const HardwareVersion version : kHardwareVersions) {
    if (number_of(version) <= vm_hardware_version) newest = version;
  }
  return newest;
}

constexpr bool offers_roce(HardwareVersion version, RoceVersion roce) {
  return roce == RoceVersion::kV1 || version >= kFirstWithRoceV2;
}

// The RoCE version of an adapter if nothing else is configured.
constexpr RoceVersion default_roce(HardwareVersion version) {
  return offers_roce(version, RoceVersion::kV2) ? RoceVersion::kV2 : RoceVersion::kV1;
}

constexpr bool offers_srq(HardwareVersion version) {
  return version >= kFirstWithSrq;
}

}  // namespace pvrdma
