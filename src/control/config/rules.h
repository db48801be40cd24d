// The rules that turn a Document, which is a user's text, into a Config, which is valid. Thread: any;
// blocking (reads the files that the configuration names).
#pragma once

#include <cstdint>

#include "base/result.h"
#include "control/config/config.h"
#include "control/config/section.h"

namespace pvrdma::control {

// In a DaemonConfig that apply_rules() has not finished: the number of shards follows from the host's cores.
inline constexpr std::uint32_t kShardsByCores = 0;

// Error: the first mistake found. `document` has a table "daemon".
Result<Config> apply_rules(const Document& document);

}  // namespace pvrdma::control
