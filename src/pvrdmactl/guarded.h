// guarded(): turns the exceptions of the JSON library into an error. Thread: any.
#pragma once

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/result.h"
#include "pvrdmactl/grammar.h"

namespace pvrdma::ctl {

// Returns what `work` returns, a Result. The library throws if a field of an answer is missing or of another
// type.
template <typename Work>
auto guarded(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const Json::exception& error) {
    return fail(fmt::format(
        "the daemon's answer is not what this pvrdmactl expects: are they of the same version? ({})",
        error.what()));
  }
}

}  // namespace pvrdma::ctl
