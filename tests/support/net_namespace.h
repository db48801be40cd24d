// NetNamespace: gives the calling thread its own network, without the host's devices, while it exists.
// Thread: one.
#pragma once

#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <sched.h>
#include <string>
#include <unistd.h>

#include "base/check.h"
#include "base/fd.h"

namespace pvrdma::test {

class NetNamespace {
 public:
  NetNamespace() : before_(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
    made_ = before_ && ::unshare(CLONE_NEWNET) == 0;
    // Otherwise the kernel's own frames would come between those of a test.
    if (made_) std::ofstream("/proc/sys/net/ipv6/conf/default/disable_ipv6") << "1\n";
  }
  ~NetNamespace() {
    if (made_) PVRDMA_CHECK(::setns(before_.get(), CLONE_NEWNET) == 0, "back to the network before");
  }
  NetNamespace(const NetNamespace&) = delete;
  NetNamespace& operator=(const NetNamespace&) = delete;

  // False: this process may not make one, which needs root.
  explicit operator bool() const { return made_; }

  // Runs iproute2's ip with these arguments, in the namespace.
  static bool ip(const std::string& arguments) { return std::system(("ip " + arguments).c_str()) == 0; }

 private:
  const Fd before_;
  bool made_ = false;
};

}  // namespace pvrdma::test
