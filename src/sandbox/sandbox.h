// The sandbox: after enter(), a seccomp filter allows every thread of this process only the system calls that
// a serving program needs, and no thread can gain privileges by execve.
//
// A call that is not on the list, or whose arguments are not, is not executed: it returns EPERM, and a line
// on standard error names the call, its arguments and its thread. So if the list lacks a call by mistake,
// that shows, and only the operation that made the call fails. The lines are limited: the first sixteen
// calls, then one each time the number of refused calls has doubled. rules.h has what programs share.
//
// Thread: enter() once, from any thread; it confines all threads, including those that already run.
// is_confined() and refused_calls() any.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/result.h"
#include "sandbox/rules.h"

namespace pvrdma::sandbox {

// Such a build cannot be confined: sanitizers stop threads to find leaks, gcov writes files.
#ifdef PVRDMA_INSTRUMENTED
inline constexpr bool kIsInstrumented = true;
#else
inline constexpr bool kIsInstrumented = false;
#endif

enum class Confinement : std::uint8_t {
  kConfined,
  kNoSeccomp,  // the kernel has no seccomp filters; only new privileges are refused
};

struct Program {
  std::string_view refusal;  // begins the line about a refused call; borrowed for ever
  std::string_view way_out;  // ends the error if the kernel refuses the filter
};

using AddRules = std::function<void(Rules&)>;

// `add_rules` lists every allowed call. Errors: the kernel refuses the filter; the process is then not
// confined.
Result<Confinement> enter(const Program& program, const AddRules& add_rules);

// Whether enter() has confined this process.
bool is_confined();

// The number of refused system calls.
std::uint64_t refused_calls();

}  // namespace pvrdma::sandbox
