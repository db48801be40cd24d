// Puts the private data of a program into a message. Thread: pure functions.
#pragma once

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>

#include "base/result.h"
#include "cm/mad.h"

namespace pvrdma::cm {

// `offset` bytes of `to` are in use already. EINVAL: it does not fit.
template <std::size_t kBytes>
Result<> copy_private(std::span<const std::byte> from, std::size_t offset, PrivateData<kBytes>& to) {
  if (from.size() > kBytes - offset)
    return fail(EINVAL,
                fmt::format("{} bytes of private data: at most {} fit", from.size(), kBytes - offset));
  std::copy(from.begin(), from.end(), to.begin() + static_cast<std::ptrdiff_t>(offset));
  return {};
}

}  // namespace pvrdma::cm
