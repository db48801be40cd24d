// HardwareVersion: the virtual hardware versions at which the PVRDMA adapter changes, the versions of VMs
// that may have one, and the properties that device, configuration, model and API derive from them.
// Properties that only the guest's driver sees are in device/device_version.h.
//
// RoCE v2 and SRQs exist from 14 on. Thread: values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "vocabulary/roce_version.h"

namespace pvrdma {

enum class HardwareVersion : std::uint8_t { k13 = 13, k14 = 14, k17 = 17, k18 = 18 };

inline constexpr std::array kHardwareVersions{HardwareVersion::k13, HardwareVersion::k14,
                                              HardwareVersion::k17, HardwareVersion::k18};
inline constexpr HardwareVersion kFirstWithAdapter = HardwareVersion::k13;
inline constexpr HardwareVersion kFirstWithRoceV2 = HardwareVersion::k14;
inline constexpr HardwareVersion kFirstWithSrq = HardwareVersion::k14;
inline constexpr HardwareVersion kFirstWithNatives = HardwareVersion::k18;

// The hardware versions of VMs that may have an adapter, each with the version whose adapter it is.
// Ascending. 16 is missing because no ESXi has it. The documents repeat this list, and
// tools/checks/versions.py compares them with it.
struct VmHardwareVersion {
  std::uint32_t number = 0;
  HardwareVersion adapter{};
};
inline constexpr std::array kVmHardwareVersions{
    VmHardwareVersion{13, HardwareVersion::k13},  // ESXi 6.5
    VmHardwareVersion{14, HardwareVersion::k14},  // ESXi 6.7
    VmHardwareVersion{15, HardwareVersion::k14},  // ESXi 6.7 U2
    VmHardwareVersion{17, HardwareVersion::k17},  // vSphere 7.0
    VmHardwareVersion{18, HardwareVersion::k18},  // vSphere 7.0 U1
    VmHardwareVersion{19, HardwareVersion::k18},  // vSphere 7.0 U2
    VmHardwareVersion{20, HardwareVersion::k18},  // vSphere 8.0
    VmHardwareVersion{21, HardwareVersion::k18},  // vSphere 8.0 U2
};

// The range of hardware versions of VMs, with or without adapters.
inline constexpr std::uint32_t kVmHardwareVersionMin = 7;
inline constexpr std::uint32_t kVmHardwareVersionMax = kVmHardwareVersions.back().number;

constexpr std::uint32_t number_of(HardwareVersion version) {
  return static_cast<std::uint32_t>(version);
}

// The adapter of a VM with that hardware version. Nullopt: VMs of that version have no adapter.
constexpr std::optional<HardwareVersion> adapter_of(std::int64_t vm_hardware_version) {
  for (const VmHardwareVersion& version : kVmHardwareVersions) {
    if (version.number == vm_hardware_version) return version.adapter;
  }
  return std::nullopt;
}

// The numbers of kVmHardwareVersions, for messages: "13 to 15, 17 to 21".
std::string hardware_versions_with_adapter();

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
