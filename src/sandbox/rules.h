// Rules: the list of system calls that a confined program may make, and the parts of such lists that the
// project's programs share.
//
// A call is allowed if every condition of one rule holds. The filter's default action applies to all others.
// Thread: any.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <seccomp.h>
#include <span>

#include "base/result.h"

namespace pvrdma::sandbox {

class Rules {
 public:
  explicit Rules(scmp_filter_ctx filter) : filter_(filter) {}

  void allow(std::span<const int> calls) {
    for (const int call : calls) add(SCMP_ACT_ALLOW, call, {});
  }
  void allow_if(int call, std::initializer_list<scmp_arg_cmp> conditions) {
    add(SCMP_ACT_ALLOW, call, conditions);
  }
  void add(std::uint32_t action, int call, std::initializer_list<scmp_arg_cmp> conditions);

  // libseccomp's first error.
  Result<void> outcome() const;

 private:
  const scmp_filter_ctx filter_;
  int code_ = 0;
};

inline scmp_arg_cmp is(unsigned argument, std::uint64_t value) {
  return {argument, SCMP_CMP_EQ, value, 0};
}
inline scmp_arg_cmp is_masked(unsigned argument, std::uint64_t mask, std::uint64_t value) {
  return {argument, SCMP_CMP_MASKED_EQ, mask, value};
}

// What every serving program needs: open descriptors, files that it reads, memory that is not executable,
// threads, its own signals, time, UNIX sockets.
void allow_serving(Rules& rules);

}  // namespace pvrdma::sandbox
