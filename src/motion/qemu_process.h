// QemuProcess: a QEMU that took part in an upgrade of QEMU or in a checkpoint.
#pragma once

#include <cstdint>
#include <string>

#include "schema/rules.h"

namespace pvrdma::motion {

struct QemuProcess {
  std::string version;
  std::uint32_t pid = 0;
};

}  // namespace pvrdma::motion

namespace pvrdma::schema {

template <>
inline constexpr auto kObject<motion::QemuProcess> = record("QemuProcess",
                                                            field("version", &motion::QemuProcess::version),
                                                            field("pid", &motion::QemuProcess::pid));

}  // namespace pvrdma::schema
