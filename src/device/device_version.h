// How a hardware version changes what the guest's driver sees. Everything else about hardware versions is in
// vocabulary/hardware_version.h.
//
// | hardware version | VERSION register | resource ids                       |
// |------------------|------------------|------------------------------------|
// | 13 (ESXi 6.5)    | 17               | translated (QP handle = QP number) |
// | 14 (ESXi 6.7)    | 18               | translated                         |
// | 17 (vSphere 7.0) | 19               | translated                         |
// | 18 (7.0 U1)      | 20               | own namespace                      |
//
// There is one hardware version for each register layout that the driver knows, so that each layout can be
// configured (ADR 5). Reference 1.7, 1.8. Thread: values.
#pragma once

#include <cstdint>

#include "vocabulary/hardware_version.h"

namespace pvrdma::device {

// Value of the VERSION register: 17 to 20.
std::uint32_t device_version(HardwareVersion version);

// False: the QP handle is the QP number. True: CREATE_QP returns both.
bool separates_qp_handle(HardwareVersion version);

// Page frame numbers of UAR pages have 64 bits in the shared region and in CREATE_UC.
bool has_wide_page_frames(HardwareVersion version);

}  // namespace pvrdma::device
