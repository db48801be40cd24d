// The rules: from a Document, which is what a person wrote, to a Config, which is valid. Thread: any thread.
#pragma once

#include "base/result.h"
#include "control/config/config.h"
#include "control/config/setting.h"

namespace pvrdma::control {

// Error: the first mistake found.
Result<Config> apply_rules(const Document& document);

}  // namespace pvrdma::control
