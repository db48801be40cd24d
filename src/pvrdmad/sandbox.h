// The sandbox: after enter_sandbox(), a seccomp filter allows every thread of this process only the system
// calls that a serving daemon needs, and no thread can gain privileges by execve.
//
// A call that is not on the list, or whose arguments are not, is not executed: it returns EPERM, and a line
// on standard error names the call, its arguments and its thread. So if the list lacks a call by mistake,
// that shows, and only the operation that made the call fails. The lines are limited: the first sixteen
// calls, then one each time the number of refused calls has doubled. The list is in sandbox_rules.cc.
//
// Thread: enter_sandbox() once, from any thread; it confines all threads, including those that already run.
// is_confined() and refused_calls() any.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace pvrdma::daemon {

// What the configuration makes the daemon do, besides serving adapters.
struct SandboxNeeds {
  bool open_devices = false;  // query RDMA devices, which are opened for writing
  bool write_files = false;   // keep the store in a file, which is created, written and locked
  bool bind_sockets = false;  // make sockets and VMMs' folders later, and set their modes, owners and names
  bool find_links = false;    // query whether the network devices of RoCE links are up: SIOCGIFFLAGS
  bool take_taps = false;     // attach to the taps of RoCE links when they appear again: TUNSETIFF
};

enum class Confinement : std::uint8_t {
  kConfined,
  kNoSeccomp,  // the kernel has no seccomp filters; only new privileges are refused
};

// Errors: the kernel refuses the filter; the process is then not confined.
Result<Confinement> enter_sandbox(const SandboxNeeds& needs);

// Whether enter_sandbox() has confined this process.
bool is_confined();

// The number of refused system calls.
std::uint64_t refused_calls();

}  // namespace pvrdma::daemon
