#include "device/device_version.h"

#include "abi/registers.h"
#include "base/check.h"

namespace pvrdma::device {

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

bool separates_qp_handle(HardwareVersion version) {
  return device_version(version) >= abi::kVersionQpHandle;
}

bool has_wide_page_frames(HardwareVersion version) {
  return device_version(version) >= abi::kVersionPpn64;
}

}  // namespace pvrdma::device
