// as_conflict(): for an upgrade or a restore that fails after it has begun. Thread: values.
#pragma once

#include <utility>

#include "base/result.h"

namespace pvrdma::moves {

// kInvalid and kUnavailable remain: the client's own words were refused, or the shard or a QEMU did not
// answer. Any other error becomes kConflict: a QEMU or the adapter is not in the state that is needed.
inline Error as_conflict(Error why) {
  if (why.kind == ErrorKind::kInvalid || why.kind == ErrorKind::kUnavailable) return why;
  return std::move(why).as(ErrorKind::kConflict);
}

}  // namespace pvrdma::moves
