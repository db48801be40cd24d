// The sandbox: from enter_sandbox() on, every thread of this process can make only the system calls that a
// serving daemon needs (a seccomp filter that lists them), and none can gain privileges by execve.
//
// A call that is not listed, or not with such arguments, does not happen: it returns EPERM to whoever made
// it, and a line on standard error names call, arguments and thread. So a call that the list lacks by
// mistake is loud and costs what that call was for, not the daemon. Lines are bounded: the first sixteen,
// then one each time their number has doubled. The list: sandbox_rules.cc.
//
// Thread: enter_sandbox() once, from any thread; holds for all threads, those that run already included.
// is_confined() and refused_calls() any thread.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace pvrdma::daemon {

// What the configuration makes the daemon do besides serving adapters.
struct SandboxNeeds {
  bool open_devices = false;  // look at RDMA devices: they are opened for writing
  bool write_files = false;   // keep a store in a file, which is created, written and locked
  bool bind_sockets = false;  // bind UNIX sockets later: their modes, owners and names are set
  bool find_links = false;    // ask whether the network devices of RoCE links are on: SIOCGIFFLAGS
  bool take_taps = false;     // take taps that are RoCE links when they are there again: TUNSETIFF
};

enum class Confinement : std::uint8_t {
  kConfined,
  kNoSeccomp,  // this kernel has no seccomp filters: only new privileges are refused
};

// Errors: the kernel refuses the filter. Then nothing is confined.
Result<Confinement> enter_sandbox(const SandboxNeeds& needs);

// Whether enter_sandbox() has confined this process.
bool is_confined();

// How many system calls were refused.
std::uint64_t refused_calls();

}  // namespace pvrdma::daemon
