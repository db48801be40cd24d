// The daemon's sandbox (sandbox/sandbox.h): the system calls that a serving daemon may make.
//
// Thread: enter_sandbox() once, from any thread; it confines all threads, including those that already run.
#pragma once

#include "base/result.h"
#include "sandbox/sandbox.h"

namespace pvrdma::daemon {

// What the configuration makes the daemon do, besides serving adapters.
struct SandboxNeeds {
  bool open_devices = false;  // query RDMA devices, which are opened for writing
  bool write_files = false;   // keep the store in a file, which is created, written and locked
  bool bind_sockets =
      false;  // make or remove sockets and VMMs' folders later, and set their modes, owners and names
  bool find_links = false;  // query the network devices of RoCE links: SIOCGIFFLAGS, SIOCGIFMTU
  bool take_taps = false;   // attach to the taps of RoCE links when they appear again: TUNSETIFF
};

// Errors: the kernel refuses the filter; the process is then not confined.
Result<sandbox::Confinement> enter_sandbox(const SandboxNeeds& needs);

}  // namespace pvrdma::daemon
