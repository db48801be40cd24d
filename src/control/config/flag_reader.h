// read_adapter_flag(): the text of an --adapter flag as a Section. Thread: any thread.
#pragma once

#include <string>

#include "base/result.h"
#include "control/config/section.h"

namespace pvrdma::control {

// Reads "KEY=VALUE,KEY=VALUE". A value contains no comma. "hw" stands for hardware_version. Errors: a part
// that is not KEY=VALUE; a key that occurs twice.
Result<Section> read_adapter_flag(const std::string& text);

}  // namespace pvrdma::control
