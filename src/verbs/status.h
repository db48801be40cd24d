// Outcomes of commands. Guest misbehaviour is an outcome, never an Error or a CHECK.
#pragma once

#include <cstdint>
#include <tl/expected.hpp>

namespace pvrdma::verbs {

// Values become the device's ERR register, so they are errno-like and positive.
enum class CommandError : std::uint32_t {
  kNoSuchObject = 2,   // ENOENT: a handle that names nothing
  kBusy = 16,          // EBUSY: still referenced
  kNoMemory = 12,      // ENOMEM: a limit is reached
  kBadAddress = 14,    // EFAULT: a page directory or page is not guest RAM
  kInvalid = 22,       // EINVAL: a value out of its range, or values that contradict each other
  kNotPermitted = 1,   // EPERM: objects of different contexts or PDs
  kNotSupported = 95,  // EOPNOTSUPP
  kAddressInUse = 98,  // EADDRINUSE: a GID another port holds
};

template <typename T = void>
using Outcome = tl::expected<T, CommandError>;

inline tl::unexpected<CommandError> refuse(CommandError why) {
  return tl::unexpected<CommandError>(why);
}

}  // namespace pvrdma::verbs
