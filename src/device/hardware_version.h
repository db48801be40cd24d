// HardwareVersion: the VM's virtual hardware version and what it decides about an adapter.
//
// | hardware version | VERSION register | RoCE      | SRQ | resource ids                     |
// |------------------|------------------|-----------|-----|----------------------------------|
// | 13 (ESXi 6.5)    | 17               | v1        | no  | translated (QP handle = QP number) |
// | 14 (ESXi 6.7)    | 18               | v1 or v2  | yes | translated                       |
// | 17 (vSphere 7.0) | 19               | v1 or v2  | yes | translated                       |
// | 18 (7.0 U1)      | 20               | v1 or v2  | yes | own namespace                    |
//
// One hardware version for each register layout the driver knows, so that each is reachable from a
// configuration (ADR 5). Reference 1.7, 1.8. Thread: values.
#pragma once

#include <cstdint>
#include <optional>

#include "verbs/ids.h"

namespace pvrdma::device {

enum class HardwareVersion : std::uint8_t { k13 = 13, k14 = 14, k17 = 17, k18 = 18 };

// For messages to operators.
inline constexpr const char* kHardwareVersionsText = "13, 14, 17 or 18";

// Nothing for a version that has no such adapter.
std::optional<HardwareVersion> parse_hardware_version(std::int64_t number);

constexpr std::uint32_t number_of(HardwareVersion version) {
  return static_cast<std::uint32_t>(version);
}

// Value of the VERSION register: 17 to 20.
std::uint32_t device_version(HardwareVersion version);

// What an adapter gets when its configuration says nothing.
verbs::RoceVersion default_roce(HardwareVersion version);

// An adapter speaks exactly one RoCE version; v1 on hardware version 13, either from 14 on.
bool offers_roce(HardwareVersion version, verbs::RoceVersion roce);

bool offers_srq(HardwareVersion version);

// False: the QP number in the guest's hands is the handle too. True: CREATE_QP answers with both.
bool separates_qp_handle(HardwareVersion version);

// Page frame numbers of UAR pages have 64 bits in the shared region and in CREATE_UC.
bool has_wide_page_frames(HardwareVersion version);

}  // namespace pvrdma::device
