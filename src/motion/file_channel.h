// A file as the channel of QEMU's migration. Thread: any. Source: QEMU docs/devel/migration/mapped-ram.rst.
#pragma once

#include <fmt/core.h>
#include <string>

#include "base/result.h"

namespace pvrdma::motion {

// The QEMU capability that gives each page a fixed place in the file.
inline constexpr const char* kMappedRam = "mapped-ram";

// QEMU reads a comma in the name as the start of an option.
inline Result<void> check_file_name(const std::string& file) {
  if (file.starts_with('/') && file.find(',') == std::string::npos) return {};
  return fail(ErrorKind::kInvalid,
              fmt::format("the file \"{}\" must be an absolute path without commas", file));
}

inline std::string file_uri(const std::string& file) {
  return "file:" + file;
}

}  // namespace pvrdma::motion
