#include "device/hardware_version.h"

#include "abi/registers.h"
#include "base/check.h"

namespace pvrdma::device {

std::optional<HardwareVersion> parse_hardware_version(std::int64_t number) {
  switch (number) {
    case 13:
      return HardwareVersion::k13;
    case 14:
      return HardwareVersion::k14;
    case 17:
      return HardwareVersion::k17;
    case 18:
      return HardwareVersion::k18;
    default:
      return std::nullopt;
  }
}

std::uint32_t device_version(HardwareVersion version) {
  switch (version) {
    case HardwareVersion::k13:
      return abi::kVersionRocev1;
    case HardwareVersion::k14:
      return abi::kVersionRocev2;
    case HardwareVersion::k17:
      return abi::kVersionPpn64;
    case HardwareVersion::k18:
      return abi::kVersionQpHandle;
  }
  PVRDMA_CHECK(false, "a hardware version outside its enumeration");
}

verbs::RoceVersion default_roce(HardwareVersion version) {
  return version == HardwareVersion::k13 ? verbs::RoceVersion::kV1 : verbs::RoceVersion::kV2;
}

bool offers_roce(HardwareVersion version, verbs::RoceVersion roce) {
  return roce == verbs::RoceVersion::kV1 || device_version(version) >= abi::kVersionRocev2;
}

bool offers_srq(HardwareVersion version) {
  return version != HardwareVersion::k13;
}

bool separates_qp_handle(HardwareVersion version) {
  return device_version(version) >= abi::kVersionQpHandle;
}

bool has_wide_page_frames(HardwareVersion version) {
  return device_version(version) >= abi::kVersionPpn64;
}

}  // namespace pvrdma::device
