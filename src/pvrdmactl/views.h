// The API's answers as text for people, and as indented JSON for machines.
//
// Each takes the JSON text of an answer. Error: it is not what this version expects (another version of the
// daemon). Thread: any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace pvrdma::ctl {

Result<std::string> adapter_list_view(const std::string& json);
Result<std::string> adapter_view(const std::string& json);
Result<std::string> qp_list_view(const std::string& json);
// Counters that are 0 are left out.
Result<std::string> stats_view(const std::string& json);
// `own` is the version of this program.
Result<std::string> version_view(const std::string& json, std::string_view own);

Result<std::string> json_view(const std::string& json);
// As json_view(), with this program's own version added.
Result<std::string> version_json_view(const std::string& json, std::string_view own);

// The sentence of a refusal, or one that names the status when there is none.
std::string error_sentence(const std::string& json, int status);

}  // namespace pvrdma::ctl
