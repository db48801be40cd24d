// The outcomes of commands. A mistake of the guest is an outcome, never an Error or a failed CHECK. Thread:
// values.
#pragma once

#include <cstdint>
#include <tl/expected.hpp>

namespace pvrdma::verbs {

// The values are positive errno numbers: they become the device's ERR register.
enum class CommandError : std::uint32_t {
  kNoSuchObject = 2,   // ENOENT: the handle names no object
  kBusy = 16,          // EBUSY: still referenced
  kNoMemory = 12,      // ENOMEM: a limit is reached
  kBadAddress = 14,    // EFAULT: a page directory or page is not guest RAM
  kInvalid = 22,       // EINVAL: a value out of its range, or values that contradict each other
  kNotPermitted = 1,   // EPERM: objects of different contexts or PDs
  kNotSupported = 95,  // EOPNOTSUPP
  kAddressInUse = 98,  // EADDRINUSE: another port holds the GID
};

template <typename T = void>
using Outcome = tl::expected<T, CommandError>;

inline tl::unexpected<CommandError> refuse(CommandError why) {
  return tl::unexpected<CommandError>(why);
}

}  // namespace pvrdma::verbs
