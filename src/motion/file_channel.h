// A file as the channel of QEMU's migration. Thread: any. Source: QEMU docs/devel/migration/mapped-ram.rst.
#pragma once

#include <cerrno>
#include <fmt/core.h>
#include <string>

#include "base/result.h"

namespace pvrdma::motion {

// Each page has its place in the file.
inline constexpr const char* kMappedRam = "mapped-ram";

// QEMU takes a comma in the name for the begin of an option.
inline Result<void> check_file_name(const std::string& file) {
  if (file.starts_with('/') && file.find(',') == std::string::npos) return {};
  return fail(EINVAL, fmt::format("the file \"{}\" must be an absolute path without commas", file));
}

inline std::string file_uri(const std::string& file) {
  return "file:" + file;
}

}  // namespace pvrdma::motion
