// CheckpointLine: a line of a checkpoint's stream (motion/checkpoint_service.h). It says how far QEMU is. The
// last one says how many bytes of state follow, or why there are none.
#pragma once

#include <cstdint>
#include <string>

#include "motion/qemu_process.h"
#include "schema/rules.h"

namespace pvrdma::moves {

struct CheckpointLine {
  std::string vm;
  std::uint64_t ram_bytes = 0;
  std::uint64_t remaining_bytes = 0;
  std::uint64_t state_bytes = 0;  // if not 0, the state follows this line
  std::uint64_t patience_s = 0;   // how long the daemon waits for the state to be stored
  std::uint64_t took_us = 0;
  motion::QemuProcess qemu;
  std::string error;
};

}  // namespace pvrdma::moves

namespace pvrdma::schema {

template <>
inline constexpr auto kObject<moves::CheckpointLine> =
    record("CheckpointLine", field("vm", &moves::CheckpointLine::vm),
           field("ram_bytes", &moves::CheckpointLine::ram_bytes),
           field("remaining_bytes", &moves::CheckpointLine::remaining_bytes),
           field("state_bytes", &moves::CheckpointLine::state_bytes),
           field("patience_s", &moves::CheckpointLine::patience_s),
           field("took_us", &moves::CheckpointLine::took_us), field("qemu", &moves::CheckpointLine::qemu),
           field("error", &moves::CheckpointLine::error));

}  // namespace pvrdma::schema
